/* Convolution over all connections, for layers where skipping does not pay: the same tiles and blocks as the sparse one,
 * several outputs at once, so that one load of the input serves all of them. Weights lie in the order they are read:
 * group, block of inputs, PK_M outputs, position, output. */

typedef struct {
    const float *x, *weights, *bias, *residual;
    const uint32_t *offsets; /* in floats */
    float *y;
    size_t pitch;
    int32_t positions, outputs, start, end; /* start: from the bias; end: clamp and residual */
    float low, high;
} dense_walk;

#define PK_DENSE_WALK(N)                                                                                       \
    static void dense_##N(const dense_walk *walk, int32_t at)                                                  \
    {                                                                                                          \
        vf a[PK_M][N];                                                                                         \
        const float *weight = walk->weights, *x = walk->x + (size_t)at * PK_V;                                 \
        const uint32_t *offset = walk->offsets;                                                                \
        PK_UNROLL for (int m = 0; m < PK_M; m++) {                                                             \
            const vf *y = (const vf *)(walk->y + (m < walk->outputs ? m : 0) * walk->pitch) + at;              \
            vf bias = v_all(walk->bias[m < walk->outputs ? m : 0]);                                            \
            PK_UNROLL for (int j = 0; j < N; j++) a[m][j] = walk->start ? bias : y[j];                         \
        }                                                                                                      \
        for (int32_t k = 0; k < walk->positions; k++, weight += PK_M) {                                        \
            const vf *q = (const vf *)(x + offset[k]);                                                         \
            if (PK_N > PK_M) {                                                                                 \
                PK_UNROLL for (int j = 0; j < N; j++) {                                                        \
                    vf v = q[j];                                                                               \
                    PK_UNROLL for (int m = 0; m < PK_M; m++) a[m][j] += v_all(weight[m]) * v;                  \
                }                                                                                              \
            } else {                                                                                           \
                vf v[N];                                                                                       \
                PK_UNROLL for (int j = 0; j < N; j++) v[j] = q[j];                                             \
                PK_UNROLL for (int m = 0; m < PK_M; m++) {                                                     \
                    vf w = v_all(weight[m]);                                                                   \
                    PK_UNROLL for (int j = 0; j < N; j++) a[m][j] += w * v[j];                                 \
                }                                                                                              \
            }                                                                                                  \
        }                                                                                                      \
        PK_UNROLL for (int m = 0; m < PK_M; m++) {                                                             \
            if (m >= walk->outputs) break;                                                                     \
            vf *y = (vf *)(walk->y + m * walk->pitch) + at;                                                    \
            const vf *r = walk->residual ? (const vf *)(walk->residual + m * walk->pitch) + at : NULL;         \
            PK_UNROLL for (int j = 0; j < N; j++) {                                                            \
                vf v = a[m][j];                                                                                \
                if (walk->end) {                                                                               \
                    if (r) v += r[j];                                                                          \
                    v = v_min(v_max(v, v_all(walk->low)), v_all(walk->high));                                  \
                }                                                                                              \
                y[j] = v;                                                                                      \
            }                                                                                                  \
        }                                                                                                      \
    }
PK_DENSE_WALK(1) PK_DENSE_WALK(2)
#if PK_N > 2
PK_DENSE_WALK(3)
#endif
#if PK_N > 3
PK_DENSE_WALK(4) PK_DENSE_WALK(5)
#endif
#if PK_N > 5
PK_DENSE_WALK(6) PK_DENSE_WALK(7)
#endif
static void (*const dense_walks[PK_N + 1])(const dense_walk *, int32_t) = {
    NULL, dense_1, dense_2,
#if PK_N > 2
    dense_3,
#endif
#if PK_N > 3
    dense_4, dense_5,
#endif
#if PK_N > 5
    dense_6, dense_7,
#endif
};

PK_INLINE int32_t outputs_up(const pk_conv *c) { return up(c->out_channels / c->groups, PK_M) * PK_M * c->groups; }

static int fill_dense(pk_conv_packed *p)
{
    const pk_conv *c = &p->conv;
    int32_t inputs = c->in_channels / c->groups, area = c->kernel_h * c->kernel_w;
    int32_t block = most(1, least(PK_FIRST_CACHE / (p->slab * PK_V * 4), 512 / area));
    p->blocks = up(inputs, block);
    p->block = up(inputs, p->blocks);
    p->parts = 1;
    return 1;
}

static size_t dense_layout(pk_conv_packed *p)
{
    const pk_conv *c = &p->conv;
    const size_t area = (size_t)c->kernel_h * c->kernel_w, inputs = (size_t)(c->in_channels / c->groups) * area;
    size_t at = align(sizeof *p);
    p->at_bias = at, at = align(at + (size_t)c->out_channels * sizeof(float));
    p->at_offsets = at, at = align(at + (size_t)p->block * area * sizeof(uint32_t));
    p->at_weights = at, at = align(at + inputs * (size_t)outputs_up(c) * sizeof(float));
    return at;
}

static void dense_plan(pk_conv_packed *p, const uint32_t *first, const uint32_t *position, const float *value, size_t end)
{
    const pk_conv *c = &p->conv;
    const size_t area = (size_t)c->kernel_h * c->kernel_w, inputs = (size_t)(c->in_channels / c->groups) * area;
    const size_t pitch = pk_pitch((size_t)c->images * c->in_h * c->in_w);
    const int32_t out_group = c->out_channels / c->groups, padded = up(out_group, PK_M) * PK_M;
    uint32_t *offsets = (uint32_t *)((char *)p + p->at_offsets);
    float *weights = (float *)((char *)p + p->at_weights);
    __builtin_memset(weights, 0, end - p->at_weights);
    for (int32_t k = 0; k < p->block; k++)
        for (int32_t y = 0; y < c->kernel_h; y++)
            for (int32_t x = 0; x < c->kernel_w; x++)
                *offsets++ = (uint32_t)(p->direct ? (size_t)k * pitch
                                                  : ((size_t)k * p->slab + (size_t)slab_offset(p, y, x)) * PK_V);
    const size_t block = (size_t)p->block * area;
    for (int32_t o = 0; o < c->out_channels; o++) {
        size_t group = (size_t)(o / out_group), in_group = (size_t)(o % out_group);
        for (uint32_t k = first[o]; k < first[o + 1]; k++) {
            size_t b = position[k] / block, low = b * block, n = inputs - low < block ? inputs - low : block;
            size_t at = group * inputs * padded + low * padded + in_group / PK_M * PK_M * n;
            weights[at + (position[k] - low) * PK_M + in_group % PK_M] = value[k];
        }
    }
}

static void dense_run_units(const pk_conv_packed *p, const float *in, const float *residual, float *out, float *scratch,
                            int32_t begin, int32_t end)
{
    const pk_conv *c = &p->conv;
    const size_t in_pitch = pk_pitch((size_t)c->images * c->in_h * c->in_w);
    const size_t out_pixels = (size_t)c->images * c->out_h * c->out_w;
    const int32_t clamp = is_clamp(c->activation) && (p->direct || !residual), vectors = up((int32_t)out_pixels, PK_V);
    const int32_t out_group = c->out_channels / c->groups, inputs = c->in_channels / c->groups;
    const float *bias = (const float *)((const char *)p + p->at_bias);
    float *tiles = scratch + (size_t)p->slab * p->block * PK_V;
    dense_walk walk = {.offsets = (const uint32_t *)((const char *)p + p->at_offsets)};
    walk.low = clamp ? clamp_low(c->activation) : -3.4e38f;
    walk.high = clamp ? clamp_high(c->activation) : 3.4e38f;
    walk.pitch = p->direct ? pk_pitch(out_pixels) : (size_t)p->rows * PK_V;
    for (int32_t unit = begin; unit < end; unit++) {
        const int32_t start = unit * p->tile, tile = p->direct ? least(p->tile, vectors - start) : p->rows;
        const int32_t step = up(tile, up(tile, PK_N));
        float *y = p->direct ? out + (size_t)start * PK_V : tiles;
        const float *other = p->direct && residual ? residual + (size_t)start * PK_V : NULL;
        walk.weights = (const float *)((const char *)p + p->at_weights);
        for (int32_t work = 0; work < c->groups * p->blocks; work++) {
            const int32_t group = work / p->blocks, b = work % p->blocks, channels = least(p->block, inputs - b * p->block);
            const int32_t channel = group * inputs + b * p->block;
            walk.positions = channels * c->kernel_h * c->kernel_w;
            walk.start = b == 0, walk.end = b == p->blocks - 1;
            walk.x = p->direct ? in + (size_t)start * PK_V + channel * in_pitch : scratch;
            if (!p->direct) fill_slab(p, in, scratch, unit, channel, channels);
            for (int32_t o = 0; o < out_group; o += PK_M) {
                const size_t output = (size_t)group * out_group + o;
                walk.outputs = least(PK_M, out_group - o);
                walk.bias = bias + output;
                walk.y = y + output * walk.pitch;
                walk.residual = other ? other + output * walk.pitch : NULL;
                for (int32_t at = 0; at < tile; at += step) dense_walks[least(step, tile - at)](&walk, at);
                walk.weights += (size_t)walk.positions * PK_M;
            }
        }
        if (!p->direct) empty_tile(p, tiles, residual, out, unit, 0, c->out_channels);
        else if (!clamp)
            for (int32_t o = 0; o < c->out_channels; o++) activate_vectors(c->activation, y + o * walk.pitch, (size_t)tile);
    }
}
