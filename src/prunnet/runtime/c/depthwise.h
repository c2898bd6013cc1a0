/* Depthwise convolution: one input plane, one small kernel, one output plane.
 *
 * Usual kernels (3, 5 or 7 square, stride 1 or 2) run in strips of one vector of columns and PK_DEPTH_ROWS rows: every row
 * of the input is loaded once for each column of the kernel and serves all rows of the output that it reaches. Columns
 * outside the image are masked. Other kernels go pixel by pixel over taps. */

#define PK_DEPTH_ROWS 4

static size_t depthwise_layout(pk_conv_packed *p)
{
    const pk_conv *c = &p->conv;
    size_t at = align(sizeof *p);
    p->at_bias = at, at = align(at + (size_t)c->out_channels * sizeof(float));
    p->at_weights = at;
    return align(at + (size_t)c->out_channels * c->kernel_h * c->kernel_w * sizeof(float));
}

static void depthwise_plan(pk_conv_packed *p, const uint32_t *first, const uint32_t *position, const float *value, size_t end)
{
    const size_t area = (size_t)p->conv.kernel_h * p->conv.kernel_w;
    float *weights = (float *)((char *)p + p->at_weights);
    __builtin_memset(weights, 0, end - p->at_weights);
    for (int32_t o = 0; o < p->conv.out_channels; o++)
        for (uint32_t k = first[o]; k < first[o + 1]; k++) weights[o * area + position[k]] = value[k];
}


/* Room for one plane with so much around it that no strip reads outside. */
PK_INLINE size_t depth_margin(const pk_conv *c) { return (size_t)c->pad_left + c->kernel_w + (size_t)c->stride_w * (PK_V + 1); }

static size_t depthwise_scratch(const pk_conv_packed *p)
{
    const pk_conv *c = &p->conv;
    return align(((size_t)c->images * c->in_h * c->in_w + 2 * depth_margin(c)) * sizeof(float));
}

typedef struct {
    const pk_conv *conv;
    const float *in, *weights, *residual; /* one image of one channel */
    float *out;
    float bias, low, high;
} depth_plane;

static void depthwise_slowly(const depth_plane *d)
{
    const pk_conv *c = d->conv;
    for (int32_t y = 0; y < c->out_h; y++)
        for (int32_t x = 0; x < c->out_w; x++) {
            float a = d->bias;
            for (int32_t ky = 0; ky < c->kernel_h; ky++) {
                int32_t row = y * c->stride_h + ky - c->pad_top;
                if (row < 0 || row >= c->in_h) continue;
                for (int32_t kx = 0; kx < c->kernel_w; kx++) {
                    int32_t column = x * c->stride_w + kx - c->pad_left;
                    if (column >= 0 && column < c->in_w)
                        a += d->weights[ky * c->kernel_w + kx] * d->in[(size_t)row * c->in_w + column];
                }
            }
            size_t at = (size_t)y * c->out_w + x;
            if (d->residual) a += d->residual[at];
            d->out[at] = a < d->low ? d->low : a > d->high ? d->high : a;
        }
}

/* One row of one strip, or less: without loss into the next row only if that is written later. */
#define PK_DEPTHWISE(L, K, S)                                                                                          \
    static void depthwise_##L##_##K##_##S(const depth_plane *d)                                                        \
    {                                                                                                                  \
        const pk_conv *c = d->conv;                                                                                    \
        const int32_t width = c->in_w, out_w = c->out_w, one_strip = out_w <= L;                                       \
        v##L w[K * K];                                                                                                 \
        for (int i = 0; i < K * K; i++) w[i] = d->weights[i] - (v##L){0};                                              \
        for (int32_t x = 0; x < out_w; x += L) {                                                                       \
            const int32_t column = x * S - c->pad_left, wide = least(L, out_w - x);                                    \
            i##L mask[K];                                                                                              \
            PK_UNROLL for (int kx = 0; kx < K; kx++) {                                                                 \
                const i##L at = PK_LANES_##L * S + (column + kx);                                                      \
                mask[kx] = (at >= 0) & (at < width);                                                                   \
            }                                                                                                          \
            for (int32_t y = 0; y < c->out_h; y += PK_DEPTH_ROWS) {                                                    \
                v##L a[PK_DEPTH_ROWS];                                                                                 \
                PK_UNROLL for (int r = 0; r < PK_DEPTH_ROWS; r++) a[r] = d->bias - (v##L){0};                          \
                PK_UNROLL for (int i = 0; i < (PK_DEPTH_ROWS - 1) * S + K; i++) {                                      \
                    const int32_t row = y * S + i - c->pad_top;                                                        \
                    if (row < 0 || row >= c->in_h) continue;                                                           \
                    const float *from = d->in + (ptrdiff_t)row * width + column;                                       \
                    PK_UNROLL for (int kx = 0; kx < K; kx++) {                                                         \
                        v##L v = *(const v##L *)(from + kx);                                                           \
                        if (S == 2) v = v##L##_even(v, *(const v##L *)(from + kx + L));                                \
                        v = (v##L)((i##L)v & mask[kx]);                                                                \
                        PK_UNROLL for (int r = 0; r < PK_DEPTH_ROWS; r++)                                              \
                            if (i - r * S >= 0 && i - r * S < K) a[r] += w[(i - r * S) * K + kx] * v;                  \
                    }                                                                                                  \
                }                                                                                                      \
                PK_UNROLL for (int r = 0; r < PK_DEPTH_ROWS; r++) {                                                    \
                    if (y + r >= c->out_h) break;                                                                      \
                    const size_t at = (size_t)(y + r) * out_w + x;                                                     \
                    if (d->residual)                                                                                   \
                        for (int32_t i = 0; i < wide; i++) a[r][i] += d->residual[at + i];                             \
                    i##L under = a[r] < d->low, over;                                                                  \
                    v##L v = (v##L)((~under & (i##L)a[r]) | (under & (i##L)(d->low - (v##L){0})));                     \
                    over = v > d->high;                                                                                \
                    v = (v##L)((~over & (i##L)v) | (over & (i##L)(d->high - (v##L){0})));                              \
                    if (wide == L || (one_strip && y + r + 1 < c->out_h && out_w >= L / 2)) *(v##L *)(d->out + at) = v; \
                    else emit(d->out + at, (const float *)&v, NULL, 0, 0, wide);                                       \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define PK_DEPTHWISES(L) PK_DEPTHWISE(L, 3, 1) PK_DEPTHWISE(L, 3, 2) PK_DEPTHWISE(L, 5, 1) PK_DEPTHWISE(L, 5, 2) PK_DEPTHWISE(L, 7, 1)
#define PK_DEPTHWISE_NAMES(L) {depthwise_##L##_3_1, depthwise_##L##_3_2, depthwise_##L##_5_1, depthwise_##L##_5_2, depthwise_##L##_7_1}
PK_DEPTHWISES(4)
#if PK_V >= 8
PK_DEPTHWISES(8)
#endif
#if PK_V >= 16
PK_DEPTHWISES(16)
#endif

static void (*depthwise_choice(const pk_conv *c))(const depth_plane *)
{
    static void (*const all[][5])(const depth_plane *) = {
        PK_DEPTHWISE_NAMES(4),
#if PK_V >= 8
        PK_DEPTHWISE_NAMES(8),
#endif
#if PK_V >= 16
        PK_DEPTHWISE_NAMES(16),
#endif
    };
    const int32_t k = c->kernel_h, s = c->stride_h, width = least(c->out_w, PK_V);
    if (k != c->kernel_w || s != c->stride_w || s > 2 || k < 3 || k > 7 || k % 2 == 0 || (k == 7 && s == 2))
        return depthwise_slowly;
    return all[width > 8 ? 2 : width > 4 ? 1 : 0][k - 3 + (s - 1)];
}

/* Channels begin to end; in holds `channels` planes, the first of which is channel `first`. */
static void depthwise_run_units(const pk_conv_packed *p, const float *in, int32_t first, int32_t channels,
                                const float *residual, float *out, float *scratch, int32_t begin, int32_t end)
{
    const pk_conv *c = &p->conv;
    const size_t in_pixels = (size_t)c->images * c->in_h * c->in_w, in_pitch = pk_pitch(in_pixels), margin = depth_margin(c);
    const size_t out_pitch = pk_pitch((size_t)c->images * c->out_h * c->out_w), area = (size_t)c->kernel_h * c->kernel_w;
    const int32_t multiplier = c->out_channels / c->groups;
    const float *bias = (const float *)((const char *)p + p->at_bias);
    const int clamp = is_clamp(c->activation);
    void (*const run)(const depth_plane *) = depthwise_choice(c);
    depth_plane d = {.conv = c};
    d.low = clamp ? clamp_low(c->activation) : -3.4e38f;
    d.high = clamp ? clamp_high(c->activation) : 3.4e38f;
    for (int32_t o = begin; o < end; o++) {
        const size_t channel = (size_t)(o / multiplier - first), last = (size_t)channels - 1;
        const float *plane = in + channel * in_pitch;
        if (channel * in_pitch < margin || (last - channel) * in_pitch < margin) { /* at the ends of the buffer */
            __builtin_memcpy(scratch + margin, plane, in_pixels * sizeof(float));
            plane = scratch + margin;
        }
        d.weights = (const float *)((const char *)p + p->at_weights) + o * area;
        d.bias = bias[o];
        for (int32_t image = 0; image < c->images; image++) {
            const size_t at = o * out_pitch + (size_t)image * c->out_h * c->out_w;
            d.in = plane + (size_t)image * c->in_h * c->in_w;
            d.out = out + at;
            d.residual = residual ? residual + at : NULL;
            run(&d);
        }
        if (!clamp) activate_vectors(c->activation, out + o * out_pitch, out_pitch / PK_V);
    }
}
