/* Threads that wait between steps without taking the processor. Where there are none, all is done by the caller. */
#ifndef PRUN_THREADS_H
#define PRUN_THREADS_H

#include "platform.h"

typedef struct prun_pool prun_pool;

/* `thread` counts from 0; no two ranges that run at the same time have the same. */
typedef void prun_work(void *told, int32_t begin, int32_t end, int thread);

prun_pool *prun_pool_start(int threads); /* NULL: there is one, or they could not be started */
void prun_pool_stop(prun_pool *pool);
void prun_pool_run(prun_pool *pool, int32_t units, prun_work *work, void *told); /* ranges that make up [0, units) */

#endif
