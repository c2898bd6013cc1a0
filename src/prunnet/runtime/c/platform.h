/* All that is asked of the C library. A build without one replaces this file's source alone. */
#ifndef PRUN_PLATFORM_H
#define PRUN_PLATFORM_H

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *prun_allocate(size_t bytes); /* zeroed, aligned to 64 bytes; NULL if there is no memory */
void *prun_allocate_array(uint64_t count, size_t size);
void prun_release(void *memory);
void prun_sort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));

#endif
