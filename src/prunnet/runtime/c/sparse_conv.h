/* Convolution over kept connections only.
 *
 * For every output the walk goes along its connections; each adds weight times `tile` neighbouring vectors of the input
 * to as many accumulators, which stay in registers. A connection is a weight and a 16-bit distance from the start of its
 * block of input channels. Within a block the outputs are ordered by their number of connections, so that the processor
 * foresees the end of the inner loop. */

typedef struct {
    uint32_t output;
    uint16_t count;
    uint8_t first, last; /* starts from the bias; ends with residual and clamp */
} sparse_row;

typedef struct {
    uint32_t row, rows, connection;
} sparse_run; /* one part of the outputs, one block of inputs */

typedef struct {
    const float *x, *weights, *bias, *residual;
    const uint16_t *offsets;
    const sparse_row *row, *end;
    float *y;
    size_t pitch; /* from output to output */
    uint32_t first; /* the output at y */
    float low, high;
    int32_t after; /* activation that is no clamp */
} sparse_walk;

#define PK_WALK(T, UNIT, NAME)                                                                                  \
    static void NAME(const sparse_walk *walk)                                                                   \
    {                                                                                                           \
        const float *weight = walk->weights, *x = walk->x;                                                      \
        const uint16_t *offset = walk->offsets;                                                                 \
        for (const sparse_row *row = walk->row; row < walk->end; row++) {                                       \
            vf a[T];                                                                                            \
            vf *y = (vf *)(walk->y + (row->output - walk->first) * walk->pitch);                                \
            if (row->first) {                                                                                   \
                vf bias = v_all(walk->bias[row->output]);                                                       \
                PK_UNROLL for (int j = 0; j < T; j++) a[j] = bias;                                              \
            } else                                                                                              \
                PK_UNROLL for (int j = 0; j < T; j++) a[j] = y[j];                                              \
            const float *end = weight + row->count;                                                             \
            for (; weight < end; weight++, offset++) {                                                          \
                const vf w = v_all(*weight), *q = (const vf *)(x + (size_t)*offset * UNIT);                     \
                PK_UNROLL for (int j = 0; j < T; j++) a[j] += w * q[j];                                         \
            }                                                                                                   \
            if (row->last) {                                                                                    \
                if (walk->residual) {                                                                           \
                    const vf *q = (const vf *)(walk->residual + (row->output - walk->first) * walk->pitch);     \
                    PK_UNROLL for (int j = 0; j < T; j++) a[j] += q[j];                                         \
                }                                                                                               \
                const vf low = v_all(walk->low), high = v_all(walk->high);                                      \
                PK_UNROLL for (int j = 0; j < T; j++) a[j] = v_min(v_max(a[j], low), high);                     \
            }                                                                                                   \
            PK_UNROLL for (int j = 0; j < T; j++) y[j] = a[j];                                                  \
            if (row->last && walk->after) activate_vectors(walk->after, (float *)y, T);                         \
        }                                                                                                       \
    }
#define PK_WALKS(T) PK_WALK(T, PK_V, walk_slab_##T) PK_WALK(T, 16, walk_planes_##T)
PK_WALKS(1) PK_WALKS(2) PK_WALKS(3) PK_WALKS(4) PK_WALKS(5) PK_WALKS(6) PK_WALKS(7)

static void (*const walk_slab[PK_TILE + 1])(const sparse_walk *) = {
    NULL, walk_slab_1, walk_slab_2, walk_slab_3, walk_slab_4, walk_slab_5, walk_slab_6, walk_slab_7};
static void (*const walk_planes[PK_TILE + 1])(const sparse_walk *) = {
    NULL, walk_planes_1, walk_planes_2, walk_planes_3, walk_planes_4, walk_planes_5, walk_planes_6, walk_planes_7};

/* Blocks of input channels that fit the first cache, and parts of the outputs. 0: an offset would not fit 16 bits. */
static int fill_sparse(pk_conv_packed *p, size_t kept)
{
    const pk_conv *c = &p->conv;
    size_t lines = pk_pitch((size_t)c->images * c->in_h * c->in_w) / 16;
    size_t step = p->direct ? lines : (size_t)p->slab;
    if (step > 65535) return 0;
    (void)kept;
    int32_t block = most(1, PK_FIRST_CACHE / (p->slab * PK_V * 4));
    block = least(block, least(c->in_channels, (int32_t)(65535 / step)));
    p->blocks = up(c->in_channels, block);
    p->block = up(c->in_channels, p->blocks);
    p->parts = least(most(1, least(c->parts, 64)), c->out_channels);
    return (int64_t)p->strips * p->row_groups * p->parts < 1 << 30;
}

static size_t sparse_layout(pk_conv_packed *p, size_t kept)
{
    const size_t outputs = (size_t)p->conv.out_channels, runs = (size_t)p->blocks * p->parts;
    size_t most_rows = kept + outputs; /* none is empty but where an output has no connection at all */
    if ((uint64_t)outputs * (uint64_t)p->blocks < most_rows) most_rows = outputs * (size_t)p->blocks;
    size_t at = align(sizeof *p);
    p->at_bias = at, at = align(at + outputs * sizeof(float));
    p->at_runs = at, at = align(at + runs * sizeof(sparse_run));
    p->at_rows = at, at = align(at + most_rows * sizeof(sparse_row));
    p->at_offsets = at, at = align(at + kept * sizeof(uint16_t));
    p->at_weights = at, at = align(at + kept * sizeof(float));
    return at + align(outputs * sizeof(uint32_t)); /* cursors, while planning */
}

PK_INLINE uint32_t row_key(const sparse_row *r) { return (uint32_t)(r->first * 2 + r->last) << 16 | r->count; }

static void sort_rows(sparse_row *rows, uint32_t n)
{
    for (uint32_t gap = n / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (uint32_t i = gap; i < n; i++) {
            sparse_row moving = rows[i];
            uint32_t j = i;
            for (; j >= gap && row_key(&rows[j - gap]) < row_key(&moving); j -= gap) rows[j] = rows[j - gap];
            rows[j] = moving;
        }
}

PK_INLINE int32_t part_begin(const pk_conv_packed *p, int32_t part)
{
    return (int32_t)((int64_t)p->conv.out_channels * part / p->parts);
}

static void sparse_plan(pk_conv_packed *p, const uint32_t *first, const uint32_t *position, const float *value, size_t end)
{
    const pk_conv *c = &p->conv;
    char *base = (char *)p;
    sparse_run *run = (sparse_run *)(base + p->at_runs);
    sparse_row *rows = (sparse_row *)(base + p->at_rows);
    uint16_t *offsets = (uint16_t *)(base + p->at_offsets);
    float *weights = (float *)(base + p->at_weights);
    uint32_t *cursor = (uint32_t *)(base + end - align((size_t)c->out_channels * sizeof(uint32_t)));
    const uint32_t area = (uint32_t)(c->kernel_h * c->kernel_w), in_group = (uint32_t)(c->in_channels / c->groups);
    const uint32_t out_group = (uint32_t)(c->out_channels / c->groups);
    const uint32_t lines = (uint32_t)(pk_pitch((size_t)c->images * c->in_h * c->in_w) / 16);
    uint32_t row = 0, connection = 0;
    __builtin_memcpy(cursor, first, (size_t)c->out_channels * sizeof(uint32_t));
    for (int32_t part = 0; part < p->parts; part++) {
        uint32_t from = (uint32_t)part_begin(p, part), to = (uint32_t)part_begin(p, part + 1);
        for (int32_t b = 0; b < p->blocks; b++, run++) {
            uint32_t low = (uint32_t)(b * p->block), high = low + (uint32_t)p->block;
            *run = (sparse_run){row, 0, connection};
            for (uint32_t o = from; o < to; o++) {
                uint32_t channels = o / out_group * in_group, k = cursor[o];
                while (k < first[o + 1] && channels + position[k] / area < high) k++;
                int last = k == first[o + 1] && (k > cursor[o] || (first[o] == k && b == p->blocks - 1));
                if (k > cursor[o] || last)
                    rows[row++] = (sparse_row){o, (uint16_t)(k - cursor[o]), cursor[o] == first[o], (uint8_t)last};
            }
            run->rows = row - run->row;
            sort_rows(rows + run->row, run->rows);
            for (uint32_t i = run->row; i < row; i++) {
                uint32_t o = rows[i].output, channels = o / out_group * in_group;
                for (uint32_t n = 0; n < rows[i].count; n++, cursor[o]++, connection++) {
                    uint32_t at = position[cursor[o]], channel = channels + at / area - low;
                    int32_t y = (int32_t)(at % area) / c->kernel_w, x = (int32_t)(at % area) % c->kernel_w;
                    offsets[connection] = (uint16_t)(p->direct ? channel * lines
                                                               : channel * (uint32_t)p->slab + (uint32_t)slab_offset(p, y, x));
                    weights[connection] = value[cursor[o]];
                }
            }
        }
    }
}

static size_t sparse_scratch(const pk_conv_packed *p)
{
    if (p->direct) return PK_ALIGN;
    return align(((size_t)p->slab * p->block + (size_t)p->rows * p->conv.out_channels) * PK_V * 4);
}

/* Units begin, begin + step, ...; `first` is the output whose plane is at out (and residual), 0 unless direct. */
static void sparse_run_units(const pk_conv_packed *p, const float *in, const float *residual, float *out, float *scratch,
                             int32_t begin, int32_t end, int32_t step, int32_t first)
{
    const pk_conv *c = &p->conv;
    const char *base = (const char *)p;
    const size_t in_pitch = pk_pitch((size_t)c->images * c->in_h * c->in_w);
    const size_t out_pixels = (size_t)c->images * c->out_h * c->out_w;
    const int32_t clamp = is_clamp(c->activation) && (p->direct || !residual), vectors = up((int32_t)out_pixels, PK_V);
    float *tiles = scratch + (size_t)p->slab * p->block * PK_V;
    sparse_walk walk = {.bias = (const float *)(base + p->at_bias)};
    walk.low = clamp ? clamp_low(c->activation) : -3.4e38f;
    walk.high = clamp ? clamp_high(c->activation) : 3.4e38f;
    walk.after = p->direct && !clamp ? c->activation : PK_IDENTITY;
    walk.pitch = p->direct ? pk_pitch(out_pixels) : (size_t)p->rows * PK_V;
    walk.first = (uint32_t)first;
    for (int32_t unit = begin; unit < end; unit += step) {
        const int32_t tile = unit / p->parts, part = unit % p->parts, start = tile * p->tile;
        const sparse_run *run = (const sparse_run *)(base + p->at_runs) + (size_t)part * p->blocks;
        walk.y = p->direct ? out + (size_t)start * PK_V : tiles;
        walk.residual = p->direct && residual ? residual + (size_t)start * PK_V : NULL;
        for (int32_t b = 0; b < p->blocks; b++, run++) {
            const int32_t channel = b * p->block;
            walk.row = (const sparse_row *)(base + p->at_rows) + run->row;
            walk.end = walk.row + run->rows;
            walk.weights = (const float *)(base + p->at_weights) + run->connection;
            walk.offsets = (const uint16_t *)(base + p->at_offsets) + run->connection;
            if (p->direct) {
                walk.x = in + (size_t)start * PK_V + channel * in_pitch;
                walk_planes[least(p->tile, vectors - start)](&walk);
            } else {
                fill_slab(p, in, scratch, tile, channel, least(p->block, c->in_channels - channel));
                walk.x = scratch;
                walk_slab[p->rows](&walk);
            }
        }
        if (!p->direct)
            empty_tile(p, tiles, residual, out, tile, part_begin(p, part), part_begin(p, part + 1));
    }
}
