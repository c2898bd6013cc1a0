/* What an instruction set offers to kernels.c: every function once. Included by each translation unit. */
#ifndef PRUNNET_ISA_H
#define PRUNNET_ISA_H

#include "kernels.h"

typedef struct {
    size_t (*conv_plan_bytes)(const pk_conv *, size_t);
    size_t (*conv_scratch_bytes)(const pk_conv *, size_t);
    pk_conv_packed *(*conv_plan)(const pk_conv *, const uint32_t *, const uint32_t *, const float *, const float *, void *);
    void (*conv_run)(const pk_conv_packed *, const float *, const float *, float *, void *, int32_t, int32_t);
    int32_t (*pair_parts)(const pk_conv *);
    size_t (*pair_scratch_bytes)(const pk_conv_packed *, const pk_conv_packed *);
    void (*pair_run)(const pk_conv_packed *, const pk_conv_packed *, const float *, float *, void *, int32_t, int32_t);
    void (*max_pool)(const pk_pool *, const float *, float *, int32_t, int32_t);
    void (*average_pool)(const pk_pool *, const float *, float *, int32_t, int32_t);
    void (*global_average)(int32_t, int32_t, const float *, float *, int32_t, int32_t);
    void (*activate)(int32_t, int32_t, const float *, float *, int32_t, int32_t);
    void (*add)(int32_t, int32_t, const float *, const float *, float *, int32_t, int32_t);
    void (*multiply)(int32_t, const float *, const float *, float *, int32_t, int32_t);
    void (*affine)(int32_t, const float *, const float *, const float *, float *, int32_t, int32_t);
    void (*gate)(int32_t, int32_t, int32_t, const float *, const float *, float *, int32_t, int32_t);
    void (*layer_norm)(int32_t, int32_t, const float *, const float *, float, const float *, float *, int32_t, int32_t);
    void (*tokens)(int32_t, int32_t, int32_t, int32_t, const float *, const float *, const float *, float *);
    size_t (*attention_scratch_bytes)(int32_t, int32_t);
    void (*attention)(int32_t, int32_t, int32_t, float, const float *, const float *, const float *, float *, void *,
                      int32_t, int32_t);
    void (*rows)(int32_t, int32_t, int32_t, const float *, float *);
} pk_functions;

extern const pk_functions pk_base, pk_avx2, pk_avx512;

/* The head of every plan. Byte offsets count from the plan, so that it may be moved. */
struct pk_conv_packed {
    pk_conv conv;
    int32_t isa, method, units, direct;
    int32_t lanes_x, lanes_y, rows, strips, row_groups; /* how pixels fill vectors: see geometry.h */
    int32_t copies, slab_rows, slab;                    /* vectors of one input channel */
    int32_t block, blocks, parts, tile;                 /* input channels at a time; ranges of outputs; vectors at a time */
    uint64_t at_bias, at_runs, at_rows, at_offsets, at_weights;
};

#endif
