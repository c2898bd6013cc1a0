/* Depthwise convolution: one input plane, one small kernel, one output plane.
 *
 * Usual kernels (3, 5 or 7 square, stride 1 or 2) run in strips of one vector of columns, down the rows: every row of the
 * input is loaded once for each column of the kernel and added to all rows of the output that it reaches, whose sums wait
 * in registers until they are complete. Rows outside the image are read from a row of zeros, columns outside of it are
 * masked, which only the first and last strip need. Other kernels go pixel by pixel over taps. */

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

/* So many floats around a plane are read at most. */
PK_INLINE size_t depth_margin(const pk_conv *c)
{
    const int32_t beyond = most((c->out_w - 1) * c->stride_w - c->in_w, 0);
    return (size_t)(beyond + c->pad_left + c->kernel_w) + (size_t)c->stride_w * (PK_V + 1);
}

static size_t depthwise_scratch(const pk_conv_packed *p) /* a row of zeros, and a plane at the end of its buffer */
{
    const pk_conv *c = &p->conv;
    const size_t row = (size_t)c->in_w + 2 * depth_margin(c), plane = (size_t)c->images * c->in_h * c->in_w + 2 * depth_margin(c);
    return align((row + plane) * sizeof(float));
}

typedef struct {
    const pk_conv *conv;
    const float *in, *zeros, *weights, *residual; /* one image of one channel */
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

/* The rows of a strip, one after the other. */
typedef struct {
    const float *in, *zeros;
    int32_t row, height, width;
} depth_rows;

PK_INLINE const float *next_row(depth_rows *r)
{
    const int32_t row = r->row++;
    return row >= 0 && row < r->height ? r->in + (ptrdiff_t)row * r->width : r->zeros;
}

/* Of the rows that an output row reads, number i goes to a[j], the output j rows further down; a moves on by assignments,
 * since clang makes of a loop a call that puts it into memory. The last strip overlaps the one before; a plane narrower
 * than a vector is written past the end of a row only where the next one is written later. */
#define PK_DEPTH_SUMS 7
#define PK_DEPTHWISE(L, K, S)                                                                                          \
    PK_INLINE void depth_row_##L##_##K##_##S(const float *from, const v##L *w, const i##L *mask, v##L *a, const int i) \
    {                                                                                                                  \
        PK_UNROLL for (int kx = 0; kx < K; kx++) {                                                                     \
            v##L v = *(const v##L *)(from + (S == 1 ? kx : kx / 2 * 2));                                               \
            if (S == 2 && kx % 2 == 0) v = v##L##_even(v, *(const v##L *)(from + kx + L));                             \
            if (S == 2 && kx % 2 == 1) v = v##L##_odd(v, *(const v##L *)(from + kx - 1 + L));                          \
            if (mask) v = (v##L)((i##L)v & mask[kx]);                                                                  \
            PK_UNROLL for (int j = 0; j <= (K - 1) / S; j++)                                                           \
                if (i - j * S >= 0 && i - j * S < K) a[j] += w[(i - j * S) * K + kx] * v;                              \
        }                                                                                                              \
    }                                                                                                                  \
    PK_INLINE void depth_strip_##L##_##K##_##S(const depth_plane *d, const v##L *w, const i##L *mask, int32_t x)       \
    {                                                                                                                  \
        const int32_t out_h = d->conv->out_h, out_w = d->conv->out_w, column = x * S - d->conv->pad_left;              \
        depth_rows rows = {d->in + column, d->zeros + column, -d->conv->pad_top, d->conv->in_h, d->conv->in_w};        \
        const float *residual = d->residual ? d->residual + x : NULL;                                                  \
        float *out = d->out + x;                                                                                       \
        const v##L bias = d->bias - (v##L){0}, low = d->low - (v##L){0}, high = d->high - (v##L){0};                   \
        v##L a[PK_DEPTH_SUMS];                                                                                         \
        PK_UNROLL for (int j = 0; j < PK_DEPTH_SUMS; j++) a[j] = bias;                                                 \
        PK_UNROLL for (int i = 0; i < K - S; i++) depth_row_##L##_##K##_##S(next_row(&rows), w, mask, a, i);           \
        for (int32_t y = 0; y < out_h; y++, out += out_w) {                                                            \
            PK_UNROLL for (int i = K - S; i < K; i++) depth_row_##L##_##K##_##S(next_row(&rows), w, mask, a, i);       \
            v##L v = a[0];                                                                                             \
            a[0] = a[1], a[1] = a[2], a[2] = a[3], a[3] = a[4], a[4] = a[5], a[5] = a[6], a[(K - 1) / S] = bias;       \
            if (residual) {                                                                                            \
                for (int32_t i = 0; i < L; i++)                                                                        \
                    if (i < out_w) v[i] += residual[i];                                                                \
                residual += out_w;                                                                                     \
            }                                                                                                          \
            v = v##L##_min(v##L##_max(v, low), high);                                                                  \
            if (!mask || out_w >= L || (2 * out_w >= L && y + 1 < out_h)) *(v##L *)out = v;                            \
            else emit(out, (const float *)&v, NULL, 0, 0, out_w);                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void depthwise_##L##_##K##_##S(const depth_plane *d)                                                        \
    {                                                                                                                  \
        const pk_conv *c = d->conv;                                                                                    \
        v##L w[K * K];                                                                                                 \
        PK_UNROLL for (int i = 0; i < K * K; i++) w[i] = d->weights[i] - (v##L){0};                                    \
        for (int32_t strip = 0; strip < c->out_w; strip += L) {                                                        \
            const int32_t x = least(strip, most(c->out_w - L, 0)), column = x * S - c->pad_left;                       \
            if (column >= 0 && column + K + (L - 1) * S <= c->in_w) {                                                  \
                depth_strip_##L##_##K##_##S(d, w, NULL, x);                                                            \
                continue;                                                                                              \
            }                                                                                                          \
            i##L mask[K];                                                                                              \
            PK_UNROLL for (int kx = 0; kx < K; kx++) {                                                                 \
                const i##L at = PK_LANES_##L * S + (column + kx);                                                      \
                mask[kx] = (at >= 0) & (at < c->in_w);                                                                 \
            }                                                                                                          \
            depth_strip_##L##_##K##_##S(d, w, mask, x);                                                                \
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

/* Channels begin to end; in holds `channels` planes, the first of which is channel `first`, with depth_margin around them
 * if `roomy`. */
static void depthwise_run_units(const pk_conv_packed *p, const float *in, int32_t first, int32_t channels, int roomy,
                                const float *residual, float *out, float *scratch, int32_t begin, int32_t end)
{
    const pk_conv *c = &p->conv;
    const size_t in_pixels = (size_t)c->images * c->in_h * c->in_w, in_pitch = pk_pitch(in_pixels), margin = depth_margin(c);
    const size_t out_pitch = pk_pitch((size_t)c->images * c->out_h * c->out_w), area = (size_t)c->kernel_h * c->kernel_w;
    const int32_t multiplier = c->out_channels / c->groups;
    const float *bias = (const float *)((const char *)p + p->at_bias);
    const int clamp = is_clamp(c->activation);
    void (*const run)(const depth_plane *) = depthwise_choice(c);
    float *copy = scratch + c->in_w + 3 * margin;
    depth_plane d = {.conv = c, .zeros = scratch + margin};
    d.low = clamp ? clamp_low(c->activation) : -3.4e38f;
    d.high = clamp ? clamp_high(c->activation) : 3.4e38f;
    __builtin_memset(scratch, 0, ((size_t)c->in_w + 2 * margin) * sizeof(float));
    for (int32_t o = begin; o < end; o++) {
        const size_t channel = (size_t)(o / multiplier - first), last = (size_t)channels - 1;
        const float *plane = in + channel * in_pitch;
        if (!roomy && (channel * in_pitch < margin || (last - channel) * in_pitch < margin)) {
            __builtin_memcpy(copy, plane, in_pixels * sizeof(float));
            plane = copy;
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
