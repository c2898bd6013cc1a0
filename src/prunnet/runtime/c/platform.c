#include "platform.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

void *prun_allocate(size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * ALIGNMENT)
        return NULL;
    unsigned char *start = calloc(1, bytes + ALIGNMENT + sizeof(void *));
    if (!start)
        return NULL;
    uintptr_t aligned = ((uintptr_t)start + sizeof(void *) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    ((void **)aligned)[-1] = start;
    return (void *)aligned;
}

void *prun_allocate_array(uint64_t count, size_t size)
{
    return count > SIZE_MAX / size ? NULL : prun_allocate((size_t)count * size);
}

void prun_release(void *memory)
{
    if (memory)
        free(((void **)memory)[-1]);
}

void prun_sort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    if (count > 1)
        qsort(base, count, size, compare);
}
