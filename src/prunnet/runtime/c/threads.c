#include "threads.h"

#if defined(__wasm__) || defined(_WIN32)

prun_pool *prun_pool_start(int threads)
{
    (void)threads;
    return NULL;
}

void prun_pool_stop(prun_pool *pool)
{
    (void)pool;
}

void prun_pool_run(prun_pool *pool, int32_t units, prun_work *work, void *told)
{
    (void)pool;
    work(told, 0, units, 0);
}

#else

#include <pthread.h>

enum { MOST_THREADS = 256, RANGES = 4 /* per thread, so that one that starts late takes fewer */ };

typedef struct {
    prun_pool *pool;
    int number;
} member;

struct prun_pool {
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    pthread_t threads[MOST_THREADS];
    member members[MOST_THREADS];
    int count, busy, ending;
    uint64_t round;
    int32_t next, units, size; /* of the round */
    prun_work *work;
    void *told;
};

/* Ranges of the round, until there are none left. */
static void take_part(prun_pool *pool, int thread)
{
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        int32_t begin = pool->next, left = pool->units - begin;
        int32_t end = begin + (left < pool->size ? left : pool->size);
        pool->next = end;
        pthread_mutex_unlock(&pool->lock);
        if (begin >= end)
            return;
        pool->work(pool->told, begin, end, thread);
    }
}

static void *live(void *argument)
{
    const member *own = argument;
    prun_pool *pool = own->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->ending)
            pthread_cond_wait(&pool->begun, &pool->lock);
        if (pool->ending)
            break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        take_part(pool, own->number);
        pthread_mutex_lock(&pool->lock);
        if (!--pool->busy)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

prun_pool *prun_pool_start(int threads)
{
    if (threads < 2)
        return NULL;
    prun_pool *pool = prun_allocate(sizeof *pool);
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 1; i < threads && i < MOST_THREADS; i++) {
        pool->members[pool->count] = (member){pool, i};
        if (pthread_create(&pool->threads[pool->count], NULL, live, &pool->members[pool->count]))
            break;
        pool->count++;
    }
    if (!pool->count) {
        prun_pool_stop(pool);
        return NULL;
    }
    return pool;
}

void prun_pool_stop(prun_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = 1;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->begun);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    prun_release(pool);
}

void prun_pool_run(prun_pool *pool, int32_t units, prun_work *work, void *told)
{
    if (!pool || units < 2) {
        work(told, 0, units, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->work = work;
    pool->told = told;
    pool->next = 0;
    pool->units = units;
    pool->size = units / (RANGES * (pool->count + 1)) + 1;
    pool->busy = pool->count;
    pool->round++;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
    take_part(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

#endif
