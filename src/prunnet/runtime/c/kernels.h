/* The arithmetic of the runtime: convolutions that skip what was pruned, and what stands between them.
 *
 * Layout of activations. A tensor of n images, c channels and h x w pixels is c planes. Plane k starts at
 * base + k * pk_pitch(n * h * w) floats and holds the n images one after another, each row by row, without any border:
 * pixel (image, y, x) is float (image * h + y) * w + x of its plane. Base is aligned to PK_ALIGN bytes. Floats between
 * the last pixel and the next plane are scratch: kernels read and overwrite them, their values reach no pixel. They must
 * exist, and once be set to zero when memory is first taken. Tokens are pixels (h = 1, w = tokens), a vector is one pixel
 * (h = w = 1): so a linear layer is a convolution of size 1. A buffer is pk_planes_bytes(c, n * h * w) bytes.
 *
 * Planning. pk_conv_plan writes everything that pk_conv_run needs into memory of the caller (PK_ALIGN aligned,
 * pk_conv_plan_bytes long, free to be moved or copied afterwards to another PK_ALIGN aligned place). Nothing is
 * allocated here, ever. Each operation that needs scratch says how much; scratch holds nothing between calls.
 *
 * Threads. A convolution is a number of units of work, pk_conv_units(plan); any division of them into ranges may run at
 * the same time, each with its own scratch. The other operations take a range of channels, pixels or heads likewise.
 *
 * Building. C11; compile kernels.c, and on x86-64 also kernels_avx2.c and kernels_avx512.c, with
 *     cc -O3 -std=c11 -ffp-contract=fast -fno-math-errno -fno-trapping-math
 * The two extra files select their instruction set themselves; which one runs is decided when the program runs. For
 * WebAssembly: clang --target=wasm32 -Os -msimd128 -ffreestanding -nostdlib (as fast as -O3 there, two thirds of its size).
 * On aarch64 vectors become NEON.
 * No function of a C library is called but memcpy and memset, which a freestanding build has to bring. */
#ifndef PRUNNET_KERNELS_H
#define PRUNNET_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define PK_ALIGN 64

typedef enum {
    PK_IDENTITY, PK_RELU, PK_RELU6, PK_SILU, PK_GELU, PK_GELU_TANH, PK_HARDSWISH, PK_SIGMOID, PK_HARDSIGMOID, PK_TANH,
    PK_ACTIVATIONS
} pk_activation;

/* Instruction sets. PK_BEST asks the processor. */
typedef enum { PK_BEST, PK_BASE, PK_AVX2, PK_AVX512 } pk_isa;

/* Selects for all that is planned and run afterwards; for tests and measurements, not while anything runs. Returns what
 * is used: the wish, or the best below it that this processor has. */
pk_isa pk_select(pk_isa wish);

static inline size_t pk_pitch(size_t pixels)
{
    size_t lines = (pixels + 15) / 16;
    return (lines | 1) * 16; /* an odd number of cache lines: planes then do not fall on the same sets */
}

static inline size_t pk_planes_bytes(size_t channels, size_t pixels)
{
    return channels * pk_pitch(pixels) * sizeof(float);
}

/* How a convolution is done. PK_AUTO: by kernel shape and share of kept connections. */
typedef enum { PK_AUTO, PK_SPARSE, PK_DENSE, PK_DEPTHWISE } pk_method;

/* out = activation(convolution(in) + bias + residual). Padding with zeros on top and left is given, below and on the
 * right it is whatever out_h and out_w ask for. A position of a connection is (channel * kernel_h + y) * kernel_w + x,
 * where channel counts from the first of the group of that output. */
typedef struct {
    int32_t images, in_channels, in_h, in_w;
    int32_t out_channels, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, groups;
    int32_t activation; /* pk_activation */
    int32_t method;     /* pk_method */
    int32_t parts;      /* 0 or 1: units are tiles of pixels. More: output channels are also divided into about so many
                           ranges, for threads where one tile holds the whole plane */
} pk_conv;

typedef struct pk_conv_packed pk_conv_packed;

/* Bytes of a plan with so many kept connections, and of the scratch of one running range. 0: the shape is impossible or
 * too large (a side beyond 2^14, channels beyond 2^20, a window beyond 2^10, weights beyond 2^27, planes beyond 2^28). */
size_t pk_conv_plan_bytes(const pk_conv *conv, size_t kept);
size_t pk_conv_scratch_bytes(const pk_conv *conv, size_t kept);

/* first[o] to first[o + 1] are the connections of output o, positions rising; bias may be NULL.
 * Returns the plan, at the start of memory, or NULL where first or position are not as described. */
pk_conv_packed *pk_conv_plan(const pk_conv *conv, const uint32_t *first, const uint32_t *position, const float *value,
                             const float *bias, void *memory);
pk_method pk_conv_method(const pk_conv_packed *plan); /* what was chosen */
int32_t pk_conv_units(const pk_conv_packed *plan);

/* Units begin <= unit < end. residual may be NULL. out must overlap neither in nor residual. */
void pk_conv_run(const pk_conv_packed *plan, const float *in, const float *residual, float *out, void *scratch,
                 int32_t begin, int32_t end);

/* A 1 x 1 convolution without residual, and the depthwise convolution that alone reads its result, together: faster where
 * the planes between them are large, and they need no buffer. Set parts of the first to pk_pair_parts before it is planned;
 * pk_pair_scratch_bytes is 0 where the two plans cannot run together (the first must be sparse: see pk_conv_method). Units
 * of work are the parts: 0 <= begin <= end <= pk_conv_parts(first). */
int32_t pk_pair_parts(const pk_conv *first);
int32_t pk_conv_parts(const pk_conv_packed *plan);
size_t pk_pair_scratch_bytes(const pk_conv_packed *first, const pk_conv_packed *depthwise);
void pk_pair_run(const pk_conv_packed *first, const pk_conv_packed *depthwise, const float *in, float *out, void *scratch,
                 int32_t begin, int32_t end);

/* Pooling of channels begin <= channel < end. Average: count_pad = 1 divides by the whole window. */
typedef struct {
    int32_t images, in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, count_pad;
} pk_pool;
void pk_max_pool(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end);
void pk_average_pool(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end);
/* Mean over each image: out is planes of `images` pixels. */
void pk_global_average(int32_t images, int32_t pixels, const float *in, float *out, int32_t begin, int32_t end);

/* Elementwise over planes of `pixels` (all images); out may be in. */
void pk_activate(int32_t pixels, int32_t activation, const float *in, float *out, int32_t begin, int32_t end);
void pk_add(int32_t pixels, int32_t activation, const float *a, const float *b, float *out, int32_t begin, int32_t end);
void pk_multiply(int32_t pixels, const float *a, const float *b, float *out, int32_t begin, int32_t end);
/* out = in * scale + shift of the channel (a batch norm that no convolution took). */
void pk_affine(int32_t pixels, const float *scale, const float *shift, const float *in, float *out, int32_t begin,
               int32_t end);
/* Squeeze and excitation: gate has one pixel per image; out = activation(in * gate). */
void pk_gate(int32_t images, int32_t pixels, int32_t activation, const float *in, const float *gate, float *out,
             int32_t begin, int32_t end);

/* Layer norm over the channels of each pixel, pixels begin <= pixel < end (begin a multiple of 16); out may be in. */
void pk_layer_norm(int32_t channels, int32_t pixels, const float *scale, const float *shift, float epsilon,
                   const float *in, float *out, int32_t begin, int32_t end);

/* Tokens of a vision transformer: out token 0.. prefix-1 are `first` (channels x prefix, may be NULL if prefix is 0),
 * then the pixels of in; position (channels x (prefix + pixels), channel-major without pitch, may be NULL) is added. */
void pk_tokens(int32_t images, int32_t channels, int32_t pixels, int32_t prefix, const float *first,
               const float *position, const float *in, float *out);

/* softmax(q k^T * scale) v for heads begin <= head < end; channel head * dim + i of q, k, v and out belongs to the head.
 * Scratch: pk_attention_scratch_bytes. */
size_t pk_attention_scratch_bytes(int32_t dim, int32_t tokens);
void pk_attention(int32_t images, int32_t tokens, int32_t dim, float scale, const float *q, const float *k,
                  const float *v, float *out, void *scratch, int32_t begin, int32_t end);

/* From planes of pixels to rows: out[pixel * channels + channel], with each row divided by its length if normalise. */
void pk_rows(int32_t channels, int32_t pixels, int32_t normalise, const float *in, float *out);

#endif
