/* Vectors of PK_V floats by compiler extensions, and the functions of one variable that activations need.
 * exp, erf and tanh are polynomials evaluated alike everywhere, so that all platforms give the same embedding. */
#include <stddef.h>
#include <stdint.h>

typedef float vf __attribute__((vector_size(PK_V * 4), may_alias));
typedef float vu __attribute__((vector_size(PK_V * 4), aligned(4), may_alias)); /* at any address */
typedef int32_t vi __attribute__((vector_size(PK_V * 4), may_alias));

/* Parts of a vector: lanes of one group of rows. */
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t i16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i4 __attribute__((vector_size(16), aligned(4), may_alias));

#define PK_LANES_4 (i4){0, 1, 2, 3}
#define PK_LANES_8 (i8){0, 1, 2, 3, 4, 5, 6, 7}
#define PK_LANES_16 (i16){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

#define PK_INLINE static inline __attribute__((always_inline, unused))
#if defined(__clang__)
#define PK_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PK_UNROLL _Pragma("GCC unroll 32")
#endif

/* Every second float of two vectors, from the first or the second on. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PK_SHUFFLE 1
#endif
#endif
#if defined(PK_SHUFFLE)
#define v4_even(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define v8_even(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define v16_even(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define v4_odd(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define v8_odd(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define v16_odd(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#else
#define v4_even(a, b) __builtin_shuffle(a, b, (i4){0, 2, 4, 6})
#define v8_even(a, b) __builtin_shuffle(a, b, (i8){0, 2, 4, 6, 8, 10, 12, 14})
#define v16_even(a, b) __builtin_shuffle(a, b, (i16){0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30})
#define v4_odd(a, b) __builtin_shuffle(a, b, (i4){1, 3, 5, 7})
#define v8_odd(a, b) __builtin_shuffle(a, b, (i8){1, 3, 5, 7, 9, 11, 13, 15})
#define v16_odd(a, b) __builtin_shuffle(a, b, (i16){1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31})
#endif

#define PK_JOIN_(a, b, c) a##b##c
#define PK_JOIN(a, b, c) PK_JOIN_(a, b, c)
#define v_even PK_JOIN(v, PK_V, _even)

PK_INLINE vf v_all(float value) { return value - (vf){0}; } /* minus zero: the compiler sees that nothing is left to do */
PK_INLINE vf v_load(const float *from) { return *(const vu *)from; }
PK_INLINE void v_store(float *to, vf value) { *(vu *)to = value; }
PK_INLINE vf v_select(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
/* a > b ? a : b, by the one instruction where it has a name; of two zeros or with NaN either may come out. */
#if defined(__wasm_simd128__)
#define v4_max(a, b) __builtin_wasm_pmax_f32x4(b, a)
#define v4_min(a, b) __builtin_wasm_pmin_f32x4(b, a)
#elif defined(__x86_64__)
#define v4_max(a, b) __builtin_ia32_maxps(a, b)
#define v4_min(a, b) __builtin_ia32_minps(a, b)
#define v8_max(a, b) __builtin_ia32_maxps256(a, b)
#define v8_min(a, b) __builtin_ia32_minps256(a, b)
#if defined(__clang__)
#define v16_max(a, b) __builtin_ia32_maxps512(a, b, 4)
#define v16_min(a, b) __builtin_ia32_minps512(a, b, 4)
#else
#define v16_max(a, b) __builtin_ia32_maxps512_mask(a, b, a, -1, 4)
#define v16_min(a, b) __builtin_ia32_minps512_mask(a, b, a, -1, 4)
#endif
#else
#define v4_max(a, b) v_select(a > b, a, b)
#define v4_min(a, b) v_select(a < b, a, b)
#endif
PK_INLINE vf v_max(vf a, vf b) { return PK_JOIN(v, PK_V, _max)(a, b); }
PK_INLINE vf v_min(vf a, vf b) { return PK_JOIN(v, PK_V, _min)(a, b); }
PK_INLINE vf v_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }

PK_INLINE float v_sum(vf a)
{
    float total = 0;
    for (int i = 0; i < PK_V; i++) total += a[i];
    return total;
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2; below -87 it is treated as -87, above 88 as 88. */
PK_INLINE vf v_exp(vf x)
{
    x = v_min(v_max(x, v_all(-87.0f)), v_all(88.0f));
    vf shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the nearest whole number ends up in the low bits */
    vi n = (vi)shifted - 0x4b400000;
    vf whole = shifted - 12582912.0f;
    vf r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    vf p = v_all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return (vf)((vi)p + (n << 23));
}

PK_INLINE vf v_sigmoid(vf x) { return 1.0f / (1.0f + v_exp(-x)); }

/* The distribution function of the normal, (1 + erf(x / sqrt 2)) / 2, as 1/2 + x P(x^2) / Q(x^2) up to 5.6, where fp32
 * has reached its end: coefficients by weighted least squares, wrong by 1e-8 before rounding. */
PK_INLINE vf v_normal(vf x)
{
    const vf a = v_min(v_max(x, v_all(-5.6f)), v_all(5.6f)), t = a * a;
    vf p = v_all(2.2145599e-8f);
    p = p * t + 6.3564867e-6f;
    p = p * t + 1.7384576e-4f;
    p = p * t + 4.7072284e-3f;
    p = p * t + 3.4375630e-2f;
    p = p * t + 3.9894222e-1f;
    vf q = v_all(1.1802171e-6f);
    q = q * t + 7.5100284e-5f;
    q = q * t + 1.9129497e-3f;
    q = q * t + 2.8939810e-2f;
    q = q * t + 2.5283264e-1f;
    q = q * t + 1.0f;
    return (vf)(~(vi)(x < -5.6f) & (vi)(0.5f + a * p / q));
}

PK_INLINE vf v_tanh(vf x)
{
    vf e = v_exp(-2.0f * v_abs(x));
    vf big = (1.0f - e) / (1.0f + e), square = x * x;
    vf small = v_abs(x) * (1.0f + square * (-1.0f / 3 + square * (2.0f / 15 - square * (17.0f / 315))));
    vf value = v_select(v_abs(x) < 0.2f, small, big);
    return v_select(x < 0.0f, -value, value);
}

/* Activations that are more than a clamp. */
PK_INLINE vf v_activate(int32_t activation, vf x)
{
    const vf zero = {0}, six = v_all(6.0f);
    switch (activation) {
    case PK_RELU: return v_max(x, zero);
    case PK_RELU6: return v_min(v_max(x, zero), six);
    case PK_SILU: return x * v_sigmoid(x);
    case PK_GELU: return x * v_normal(x);
    case PK_GELU_TANH: return x * v_sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
    case PK_HARDSWISH: return x * v_min(v_max(x + 3.0f, zero), six) * (1.0f / 6);
    case PK_SIGMOID: return v_sigmoid(x);
    case PK_HARDSIGMOID: return v_min(v_max(x + 3.0f, zero), six) * (1.0f / 6);
    case PK_TANH: return v_tanh(x);
    default: return x;
    }
}

/* In place over whole vectors at an aligned address. The switch is outside of the loops. */
static void activate_vectors(int32_t activation, float *at, size_t vectors)
{
    vf *v = (vf *)at;
#define PK_EACH(name) case name: for (size_t i = 0; i < vectors; i++) v[i] = v_activate(name, v[i]); break;
    switch (activation) {
        PK_EACH(PK_RELU) PK_EACH(PK_RELU6) PK_EACH(PK_SILU) PK_EACH(PK_GELU) PK_EACH(PK_GELU_TANH)
        PK_EACH(PK_HARDSWISH) PK_EACH(PK_SIGMOID) PK_EACH(PK_HARDSIGMOID) PK_EACH(PK_TANH)
    default: break;
    }
#undef PK_EACH
}

/* The clamp that an activation is, or begins with: values beyond are all there is to most. */
PK_INLINE int is_clamp(int32_t activation) { return activation <= PK_RELU6; }
PK_INLINE float clamp_low(int32_t activation) { return activation == PK_RELU || activation == PK_RELU6 ? 0.0f : -3.4e38f; }
PK_INLINE float clamp_high(int32_t activation) { return activation == PK_RELU6 ? 6.0f : 3.4e38f; }
