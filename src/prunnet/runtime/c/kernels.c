/* The kernels for any processor (vectors of four: SSE2, NEON, SIMD128), and the choice between instruction sets. */
#define PK_V 4
#define PK_ISA PK_BASE
#define PK_TABLE pk_base
#include "isa_body.h"

static const pk_functions *chosen;

pk_isa pk_select(pk_isa wish)
{
#if defined(__x86_64__) && !defined(PK_BASE_ONLY)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (avx512 && (wish == PK_BEST || wish == PK_AVX512)) return chosen = &pk_avx512, PK_AVX512;
    if (avx2 && wish != PK_BASE) return chosen = &pk_avx2, PK_AVX2;
#else
    (void)wish;
#endif
    return chosen = &pk_base, PK_BASE;
}

static const pk_functions *now(void)
{
    if (!chosen) pk_select(PK_BEST);
    return chosen;
}

/* A plan is run by the instruction set that made it. */
static const pk_functions *of(const pk_conv_packed *plan)
{
#if defined(__x86_64__) && !defined(PK_BASE_ONLY)
    if (plan->isa == PK_AVX512) return &pk_avx512;
    if (plan->isa == PK_AVX2) return &pk_avx2;
#else
    (void)plan;
#endif
    return &pk_base;
}

size_t pk_conv_plan_bytes(const pk_conv *conv, size_t kept) { return now()->conv_plan_bytes(conv, kept); }
size_t pk_conv_scratch_bytes(const pk_conv *conv, size_t kept) { return now()->conv_scratch_bytes(conv, kept); }

pk_conv_packed *pk_conv_plan(const pk_conv *conv, const uint32_t *first, const uint32_t *position, const float *value,
                             const float *bias, void *memory)
{
    return now()->conv_plan(conv, first, position, value, bias, memory);
}

pk_method pk_conv_method(const pk_conv_packed *plan) { return (pk_method)plan->method; }
int32_t pk_conv_units(const pk_conv_packed *plan) { return plan->units; }

void pk_conv_run(const pk_conv_packed *plan, const float *in, const float *residual, float *out, void *scratch,
                 int32_t begin, int32_t end)
{
    of(plan)->conv_run(plan, in, residual, out, scratch, begin, end);
}

int32_t pk_pair_parts(const pk_conv *first) { return now()->pair_parts(first); }
int32_t pk_conv_parts(const pk_conv_packed *plan) { return plan->parts; }

size_t pk_pair_scratch_bytes(const pk_conv_packed *first, const pk_conv_packed *depthwise)
{
    return first->isa == depthwise->isa ? of(first)->pair_scratch_bytes(first, depthwise) : 0;
}

void pk_pair_run(const pk_conv_packed *first, const pk_conv_packed *depthwise, const float *in, float *out, void *scratch,
                 int32_t begin, int32_t end)
{
    of(first)->pair_run(first, depthwise, in, out, scratch, begin, end);
}

void pk_max_pool(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end)
{
    now()->max_pool(pool, in, out, begin, end);
}

void pk_average_pool(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end)
{
    now()->average_pool(pool, in, out, begin, end);
}

void pk_global_average(int32_t images, int32_t pixels, const float *in, float *out, int32_t begin, int32_t end)
{
    now()->global_average(images, pixels, in, out, begin, end);
}

void pk_activate(int32_t pixels, int32_t activation, const float *in, float *out, int32_t begin, int32_t end)
{
    now()->activate(pixels, activation, in, out, begin, end);
}

void pk_add(int32_t pixels, int32_t activation, const float *a, const float *b, float *out, int32_t begin, int32_t end)
{
    now()->add(pixels, activation, a, b, out, begin, end);
}

void pk_multiply(int32_t pixels, const float *a, const float *b, float *out, int32_t begin, int32_t end)
{
    now()->multiply(pixels, a, b, out, begin, end);
}

void pk_affine(int32_t pixels, const float *scale, const float *shift, const float *in, float *out, int32_t begin,
               int32_t end)
{
    now()->affine(pixels, scale, shift, in, out, begin, end);
}

void pk_gate(int32_t images, int32_t pixels, int32_t activation, const float *in, const float *gate_by, float *out,
             int32_t begin, int32_t end)
{
    now()->gate(images, pixels, activation, in, gate_by, out, begin, end);
}

void pk_layer_norm(int32_t channels, int32_t pixels, const float *scale, const float *shift, float epsilon,
                   const float *in, float *out, int32_t begin, int32_t end)
{
    now()->layer_norm(channels, pixels, scale, shift, epsilon, in, out, begin, end);
}

void pk_tokens(int32_t images, int32_t channels, int32_t pixels, int32_t prefix, const float *first,
               const float *position, const float *in, float *out)
{
    now()->tokens(images, channels, pixels, prefix, first, position, in, out);
}

size_t pk_attention_scratch_bytes(int32_t dim, int32_t count) { return now()->attention_scratch_bytes(dim, count); }

void pk_attention(int32_t images, int32_t count, int32_t dim, float scale, const float *q, const float *k,
                  const float *v, float *out, void *scratch, int32_t begin, int32_t end)
{
    now()->attention(images, count, dim, scale, q, k, v, out, scratch, begin, end);
}

void pk_rows(int32_t channels, int32_t pixels, int32_t normalise, const float *in, float *out)
{
    now()->rows(channels, pixels, normalise, in, out);
}
