/* From a program and tensors to steps over the kernels: batch norms folded, residuals and activations taken by the
   convolution before them, every value a view of planes in one arena. */
#ifndef PRUN_PLAN_H
#define PRUN_PLAN_H

#include "kernels.h"
#include "program.h"
#include "threads.h"

/* A value as floats in memory: its dimensions with their strides, and the planes that they fill. */
typedef struct {
    prun_shape shape;
    int64_t stride[PRUN_DIMENSIONS];
    int buffer;
    int64_t offset; /* floats from the start of the buffer */
    int32_t planes, pixels;
} prun_view;

typedef enum {
    STEP_CONV,
    STEP_PAIR, /* a 1 x 1 convolution and the depthwise one after it */
    STEP_MAX_POOL,
    STEP_AVERAGE_POOL,
    STEP_GLOBAL_AVERAGE,
    STEP_ACTIVATE,
    STEP_LEAKY_RELU,
    STEP_ADD,
    STEP_MULTIPLY,
    STEP_GATE,
    STEP_AFFINE,
    STEP_LAYER_NORM,
    STEP_ATTENTION,
    STEP_COPY
} prun_step_kind;

typedef struct {
    prun_step_kind kind;
    int activation;
    prun_view in[3]; /* as many as the kind takes */
    int inputs;
    prun_view out;
    pk_conv_packed *conv, *depthwise; /* the second of a pair only */
    pk_pool pool;
    float number;        /* epsilon, scale or slope */
    float *scale, *shift; /* per channel */
    int clears;          /* a copy that does not fill all of its result */
} prun_step;

typedef struct {
    size_t bytes, offset;
    int first, last;   /* steps that write and read it */
    float *constant;   /* of a tensor: filled once, outside of the arena */
} prun_buffer;

typedef struct {
    prun_step *steps;
    int count, room;
    prun_buffer *buffers;
    int buffers_count, buffers_room;
    prun_view image, embedding;
    unsigned char *arena; /* values, then the scratch of each thread */
    size_t arena_bytes, scratch_offset, scratch_bytes;
    int threads;
    prun_pool *pool; /* NULL: one thread */
} prun_plan;

int prun_plan_make(prun_plan *plan, const prun_header *header, const prun_program *program, float **tensors, int threads,
                   prun_problem *problem);
void prun_plan_free(prun_plan *plan);
void prun_plan_run(const prun_plan *plan);
float *prun_plan_memory(const prun_plan *plan, const prun_view *view);

#endif
