/* The program of a .prun file: operations on values whose shapes all follow from the image and the header. */
#ifndef PRUN_PROGRAM_H
#define PRUN_PROGRAM_H

#include "header.h"

enum { PRUN_DIMENSIONS = 6, PRUN_INPUTS = 64, PRUN_NUMBERS = 16 };

typedef enum {
    PRUN_CONV2D,
    PRUN_BATCH_NORM,
    PRUN_LINEAR,
    PRUN_LAYER_NORM,
    PRUN_RELU,
    PRUN_RELU6,
    PRUN_LEAKY_RELU,
    PRUN_SILU,
    PRUN_GELU,
    PRUN_GELU_TANH,
    PRUN_HARDSWISH,
    PRUN_HARDSIGMOID,
    PRUN_SIGMOID,
    PRUN_TANH,
    PRUN_ADD,
    PRUN_MUL,
    PRUN_MAX_POOL2D,
    PRUN_AVG_POOL2D,
    PRUN_MEAN,
    PRUN_PAD,
    PRUN_RESHAPE,
    PRUN_PERMUTE,
    PRUN_SLICE,
    PRUN_CONCAT,
    PRUN_ATTENTION
} prun_kind;

typedef struct {
    int rank;
    int32_t dims[PRUN_DIMENSIONS];
} prun_shape;

typedef struct {
    prun_kind kind;
    int inputs, numbers;
    const int32_t *input; /* 0: the image, i: the result of the i-th operation, -k: the k-th tensor */
    const double *number;
    prun_shape shape; /* of the result */
} prun_operation;

typedef struct {
    int count;
    prun_operation *operations;
    int32_t *input_room;
    double *number_room;
    prun_shape image;
} prun_program;

int prun_program_read(prun_program *program, const prun_header *header, prun_problem *problem);
void prun_program_free(prun_program *program);
prun_shape prun_shape_of(const prun_program *program, const prun_header *header, int32_t value);
int64_t prun_shape_size(const prun_shape *shape);

#endif
