/* Random convolutions, poolings and attentions against the plainest loops, in buffers of exactly the promised size:
 *     cc -O1 -g -fsanitize=address,undefined kernels_check.c kernels*.c -lm && ./a.out [cases] [seed]
 * Says nothing and returns 0 when all agree. */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint32_t random_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static int32_t between(int32_t low, int32_t high) { return low + (int32_t)(random_bits() % (uint32_t)(high - low + 1)); }
static float number(void) { return (float)random_bits() / 1073741824.0f - 1.0f; }

static void *room(size_t bytes)
{
    void *memory = aligned_alloc(PK_ALIGN, (bytes + PK_ALIGN - 1) / PK_ALIGN * PK_ALIGN);
    if (!memory) exit(2);
    memset(memory, 0, bytes);
    return memory;
}

static float *planes(int32_t channels, int32_t pixels, int fill)
{
    float *at = room(pk_planes_bytes((size_t)channels, (size_t)pixels));
    for (int32_t k = 0; k < channels; k++)
        for (int32_t i = 0; i < pixels && fill; i++) at[k * pk_pitch((size_t)pixels) + i] = number();
    return at;
}

static double activated(int32_t activation, double x)
{
    double gate = fmin(fmax(x + 3, 0), 6) / 6;
    switch (activation) {
    case PK_RELU: return fmax(x, 0);
    case PK_RELU6: return fmin(fmax(x, 0), 6);
    case PK_SILU: return x / (1 + exp(-x));
    case PK_GELU: return x * 0.5 * erfc(-x * sqrt(0.5));
    case PK_GELU_TANH: return x * 0.5 * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
    case PK_HARDSWISH: return x * gate;
    case PK_SIGMOID: return 1 / (1 + exp(-x));
    case PK_HARDSIGMOID: return gate;
    case PK_TANH: return tanh(x);
    default: return x;
    }
}

static int differs(const char *what, double found, double expected)
{
    if (fabs(found - expected) <= 1e-4 * (1 + fabs(expected))) return 0;
    fprintf(stderr, "%s: %g instead of %g\n", what, found, expected);
    return 1;
}

static pk_conv random_conv(void)
{
    pk_conv c = {0};
    c.groups = between(0, 3) ? 1 : between(1, 6);
    c.images = between(0, 3) ? 1 : between(2, 4);
    c.in_channels = c.groups * between(1, 9), c.out_channels = c.groups * between(1, 9);
    if (!between(0, 3)) c.in_channels = c.out_channels = c.groups = between(1, 12);
    c.in_h = between(1, 30), c.in_w = between(1, 40);
    int32_t simple = between(0, 2);
    c.kernel_h = simple ? between(0, 1) * 2 + 1 : between(1, 7);
    c.kernel_w = simple ? c.kernel_h : between(1, 7);
    c.stride_h = simple ? between(1, 2) : between(1, 4), c.stride_w = simple ? c.stride_h : between(1, 4);
    c.pad_top = between(0, c.kernel_h - 1), c.pad_left = between(0, c.kernel_w - 1);
    int32_t below = between(0, c.kernel_h - 1), right = between(0, c.kernel_w - 1);
    if (!between(0, 7)) c.pad_top += between(0, 60), c.pad_left += between(0, 60), below += between(0, 60), right += between(0, 200);
    int32_t spare_h = c.in_h + c.pad_top + below - c.kernel_h, spare_w = c.in_w + c.pad_left + right - c.kernel_w;
    c.out_h = spare_h < 0 ? 1 : spare_h / c.stride_h + 1, c.out_w = spare_w < 0 ? 1 : spare_w / c.stride_w + 1;
    c.activation = between(0, PK_ACTIVATIONS - 1), c.method = between(0, 3), c.parts = between(0, 3);
    return c;
}

static double plain(const pk_conv *c, const float *in, const float *weights, int32_t image, int32_t o, int32_t y, int32_t x)
{
    const size_t pitch = pk_pitch((size_t)c->images * c->in_h * c->in_w);
    const int32_t inputs = c->in_channels / c->groups, from = o / (c->out_channels / c->groups) * inputs;
    double total = 0;
    for (int32_t k = 0; k < inputs; k++)
        for (int32_t ky = 0; ky < c->kernel_h; ky++)
            for (int32_t kx = 0; kx < c->kernel_w; kx++) {
                int32_t row = y * c->stride_h + ky - c->pad_top, column = x * c->stride_w + kx - c->pad_left;
                if (row < 0 || row >= c->in_h || column < 0 || column >= c->in_w) continue;
                total += (double)weights[((o * inputs + k) * c->kernel_h + ky) * c->kernel_w + kx] *
                         in[(from + k) * pitch + (size_t)((image * c->in_h + row) * c->in_w + column)];
            }
    return total;
}

static int check_conv(void)
{
    const pk_conv c = random_conv();
    const int32_t inputs = c.in_channels / c.groups * c.kernel_h * c.kernel_w, density = between(0, 100);
    const int32_t in_pixels = c.images * c.in_h * c.in_w, out_pixels = c.images * c.out_h * c.out_w;
    float *weights = room((size_t)inputs * c.out_channels * 4), *values = room((size_t)inputs * c.out_channels * 4);
    float *bias = room((size_t)c.out_channels * 4);
    uint32_t *first = room(((size_t)c.out_channels + 1) * 4), *position = room((size_t)inputs * c.out_channels * 4), kept = 0;
    for (int32_t o = 0; o < c.out_channels; o++) {
        bias[o] = number();
        for (int32_t k = 0; k < inputs; k++)
            if (between(0, 99) < density) position[kept] = (uint32_t)k, values[kept++] = weights[o * inputs + k] = number();
        first[o + 1] = kept;
    }
    float *in = planes(c.in_channels, in_pixels, 1), *out = planes(c.out_channels, out_pixels, 0);
    float *residual = between(0, 1) ? planes(c.out_channels, out_pixels, 1) : NULL;
    size_t bytes = pk_conv_plan_bytes(&c, kept);
    void *memory = room(bytes), *scratch = room(pk_conv_scratch_bytes(&c, kept));
    pk_conv_packed *plan = pk_conv_plan(&c, first, position, values, bias, memory);
    int wrong = bytes == 0 || plan == NULL;
    for (int32_t at = 0, n; plan && at < pk_conv_units(plan); at += n) {
        n = between(1, pk_conv_units(plan) - at);
        pk_conv_run(plan, in, residual, out, scratch, at, at + n);
    }
    for (int32_t o = 0; o < c.out_channels && !wrong; o++)
        for (int32_t i = 0; i < out_pixels && !wrong; i++) {
            size_t at = o * pk_pitch((size_t)out_pixels) + (size_t)i;
            int32_t image = i / (c.out_h * c.out_w), y = i / c.out_w % c.out_h, x = i % c.out_w;
            double expected = plain(&c, in, weights, image, o, y, x) + bias[o] + (residual ? residual[at] : 0);
            wrong = differs("convolution", out[at], activated(c.activation, expected));
        }
    if (wrong)
        fprintf(stderr, "images %d, %d channels of %d x %d to %d of %d x %d, kernel %d x %d, stride %d %d, padding %d %d, "
                "groups %d, activation %d, method %d, parts %d, %u kept\n", c.images, c.in_channels, c.in_h, c.in_w,
                c.out_channels, c.out_h, c.out_w, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.pad_top, c.pad_left,
                c.groups, c.activation, c.method, c.parts, kept);
    free(weights), free(values), free(bias), free(first), free(position), free(in), free(out), free(residual), free(memory);
    free(scratch);
    return wrong;
}

/* An expansion and its depthwise convolution: together as one after the other. */
static int check_pair(void)
{
    pk_conv a = {between(1, 2), between(1, 5), between(1, 30), between(1, 30), between(1, 40), 0, 0, 1, 1, 1, 1, 0, 0, 1,
                 between(0, PK_ACTIVATIONS - 1), PK_SPARSE, 0};
    a.out_h = a.in_h, a.out_w = a.in_w;
    pk_conv b = {a.images, a.out_channels, a.in_h, a.in_w, a.out_channels, 0, 0, 3, 3, between(1, 2), 0, 1, 1, a.out_channels,
                 PK_RELU6, PK_DEPTHWISE, 0};
    b.stride_w = b.stride_h, b.out_h = (b.in_h - 1) / b.stride_h + 1, b.out_w = (b.in_w - 1) / b.stride_w + 1;
    a.parts = between(0, 1) ? pk_pair_parts(&a) : between(1, 5);
    const uint32_t outputs = (uint32_t)a.out_channels, inputs = (uint32_t)a.in_channels;
    uint32_t *first = room((outputs + 1) * 4), *position = room(outputs * (inputs + 9) * 4);
    float *values = room(outputs * (inputs + 9) * 4), *in = planes(a.in_channels, a.images * a.in_h * a.in_w, 1);
    const int32_t pixels = b.images * b.out_h * b.out_w;
    float *between_them = planes(a.out_channels, a.images * a.in_h * a.in_w, 0);
    float *apart = planes(b.out_channels, pixels, 0), *together = planes(b.out_channels, pixels, 0);
    for (uint32_t i = 0; i < outputs * (inputs + 9); i++) values[i] = number(), position[i] = i % inputs;
    for (uint32_t o = 0; o <= outputs; o++) first[o] = o * inputs;
    void *memory = room(pk_conv_plan_bytes(&a, first[outputs])), *other = room(pk_conv_plan_bytes(&b, outputs * 9));
    const pk_conv_packed *p = pk_conv_plan(&a, first, position, values, NULL, memory);
    for (uint32_t i = 0; i < outputs * 9; i++) position[i] = i % 9;
    for (uint32_t o = 0; o <= outputs; o++) first[o] = o * 9;
    const pk_conv_packed *q = pk_conv_plan(&b, first, position, values, NULL, other);
    void *scratch = room(pk_pair_scratch_bytes(p, q)), *alone = room(pk_conv_scratch_bytes(&b, outputs * 9));
    pk_pair_run(p, q, in, together, scratch, 0, pk_conv_parts(p));
    pk_conv_run(p, in, NULL, between_them, alone, 0, pk_conv_units(p));
    pk_conv_run(q, between_them, NULL, apart, alone, 0, pk_conv_units(q));
    int wrong = 0;
    for (int32_t k = 0; k < b.out_channels; k++)
        for (int32_t i = 0; i < pixels && !wrong; i++)
            wrong = differs("pair", together[k * pk_pitch((size_t)pixels) + (size_t)i], apart[k * pk_pitch((size_t)pixels) + (size_t)i]);
    free(first), free(position), free(values), free(in), free(between_them), free(apart), free(together), free(memory);
    free(other), free(scratch), free(alone);
    return wrong;
}

static int check_pool(void)
{
    pk_pool p = {between(1, 2), between(3, 30), between(3, 40), 0, 0, between(2, 3), 0, 2, 2, 0, 0, 0};
    p.kernel_w = p.kernel_h, p.pad_top = between(0, 1), p.pad_left = between(0, 1);
    p.out_h = (p.in_h + 2 * p.pad_top - p.kernel_h) / 2 + 1, p.out_w = (p.in_w + 2 * p.pad_left - p.kernel_w) / 2 + 1;
    const int32_t channels = between(1, 3), pixels = p.images * p.in_h * p.in_w, out_pixels = p.images * p.out_h * p.out_w;
    float *in = planes(channels, pixels, 1), *out = planes(channels, out_pixels, 0);
    int wrong = 0;
    pk_max_pool(&p, in, out, 0, channels);
    for (int32_t k = 0; k < channels; k++)
        for (int32_t i = 0; i < out_pixels && !wrong; i++) {
            int32_t image = i / (p.out_h * p.out_w), y = i / p.out_w % p.out_h, x = i % p.out_w;
            float high = -3.4e38f;
            for (int32_t r = y * 2 - p.pad_top; r < y * 2 - p.pad_top + p.kernel_h; r++)
                for (int32_t s = x * 2 - p.pad_left; s < x * 2 - p.pad_left + p.kernel_w; s++)
                    if (r >= 0 && r < p.in_h && s >= 0 && s < p.in_w)
                        high = fmaxf(high, in[k * pk_pitch((size_t)pixels) + (size_t)((image * p.in_h + r) * p.in_w + s)]);
            wrong = differs("pooling", out[k * pk_pitch((size_t)out_pixels) + (size_t)i], high);
        }
    free(in), free(out);
    return wrong;
}

static int check_attention(void)
{
    const int32_t images = between(1, 2), tokens = between(1, 90), dim = between(1, 20), heads = between(1, 2);
    const size_t pitch = pk_pitch((size_t)(images * tokens));
    float *q = planes(heads * dim, images * tokens, 1), *k = planes(heads * dim, images * tokens, 1);
    float *v = planes(heads * dim, images * tokens, 1), *out = planes(heads * dim, images * tokens, 0);
    void *scratch = room(pk_attention_scratch_bytes(dim, tokens));
    double *share = room((size_t)tokens * sizeof(double));
    int wrong = 0;
    pk_attention(images, tokens, dim, 0.7f, q, k, v, out, scratch, 0, heads);
    for (int32_t head = 0; head < heads; head++)
        for (int32_t i = 0; i < images * tokens && !wrong; i++) {
            const size_t plane = (size_t)(head * dim) * pitch, first = (size_t)(i / tokens * tokens);
            double total = 0;
            for (int32_t t = 0; t < tokens; t++) {
                double product = 0;
                for (int32_t d = 0; d < dim; d++) product += (double)q[plane + d * pitch + i] * k[plane + d * pitch + first + t];
                total += share[t] = exp(0.7 * product);
            }
            for (int32_t d = 0; d < dim && !wrong; d++) {
                double expected = 0;
                for (int32_t t = 0; t < tokens; t++) expected += share[t] / total * v[plane + d * pitch + first + t];
                wrong = differs("attention", out[plane + d * pitch + i], expected);
            }
        }
    free(q), free(k), free(v), free(out), free(scratch), free(share);
    return wrong;
}

static int check_planes(void)
{
    const int32_t images = between(1, 3), pixels = between(1, 70), channels = between(1, 9), all = images * pixels;
    float *in = planes(channels, all, 1), *out = planes(channels, all, 0), *gate = planes(channels, images, 1);
    float *ones = room((size_t)channels * 4), *rows = room((size_t)channels * all * 4);
    for (int32_t k = 0; k < channels; k++) ones[k] = 1;
    pk_layer_norm(channels, all, ones, ones, 1e-5f, in, out, 0, all);
    pk_gate(images, pixels, between(0, PK_ACTIVATIONS - 1), in, gate, out, 0, channels);
    pk_global_average(images, pixels, out, gate, 0, channels);
    pk_add(all, between(0, PK_ACTIVATIONS - 1), in, out, out, 0, channels);
    pk_affine(all, ones, ones, out, out, 0, channels);
    pk_rows(channels, all, 1, out, rows);
    free(in), free(out), free(gate), free(ones), free(rows);
    return 0;
}

int main(int count, char **arguments)
{
    const long cases = count > 1 ? atol(arguments[1]) : 300, seed = count > 2 ? atol(arguments[2]) : 0;
    for (int isa = PK_BASE; isa <= PK_AVX512; isa++) {
        if (pk_select((pk_isa)isa) != (pk_isa)isa) continue;
        for (long i = 0; i < cases; i++) {
            state = (uint64_t)(seed + i) * 0x9e3779b97f4a7c15u + (uint64_t)isa;
            for (int warm = 0; warm < 4; warm++) random_bits();
            if (check_conv() || (i % 8 == 0 && (check_pool() || check_pair() || check_attention() || check_planes()))) {
                fprintf(stderr, "instruction set %d, case %ld of seed %ld\n", isa, i, seed);
                return 1;
            }
        }
    }
    return 0;
}
