/* Between planes and tiles: fills the slab of shifted inputs (geometry.h), and takes finished tiles back to planes.
 *
 * Lanes outside the image are zero. They are read all the same, from whatever lies beside the row, and masked, except
 * where that would be outside the buffer. */

typedef struct {
    const float *in, *in_end;
    float *slab;
    int32_t tile, channel, channels;
} slab_source;

/* One lane group of one row of one channel, lane by lane. */
static void fill_lanes_slowly(float *to, const float *row, int32_t from, int32_t width, int32_t stride, int32_t lanes)
{
    for (int32_t i = 0; i < lanes; i++) {
        int32_t x = from + i * stride;
        to[i] = x >= 0 && x < width ? row[x] : 0.0f;
    }
}

#define PK_KERNEL_COLUMNS 16 /* wider kernels go lane by lane */

#define PK_FILL(L)                                                                                                     \
    PK_INLINE void fill_##L(const pk_conv_packed *p, const slab_source *s, const int32_t columns, const int32_t stride) \
    {                                                                                                                  \
        const pk_conv *c = &p->conv;                                                                                   \
        const size_t pitch = pk_pitch((size_t)c->images * c->in_h * c->in_w);                                          \
        const int32_t set = s->tile / p->strips, phases = least(c->stride_h, c->kernel_h);                             \
        const int32_t per_image = up(c->out_h, p->rows), width = c->in_w;                                              \
        const int32_t column = s->tile % p->strips * L * stride - c->pad_left;                                         \
        const size_t next_copy = (size_t)phases * p->slab_rows * PK_V;                                                 \
        const int quick = stride <= 2 && columns <= PK_KERNEL_COLUMNS;                                                 \
        i##L mask[PK_KERNEL_COLUMNS];                                                                                  \
        for (int32_t x = 0; x < columns && quick; x++) {                                                               \
            const i##L at = PK_LANES_##L * stride + (column + x);                                                      \
            mask[x] = (at >= 0) & (at < width);                                                                        \
        }                                                                                                              \
        for (int32_t k = 0; k < s->channels; k++)                                                                      \
            for (int32_t g = 0; g < p->lanes_y; g++) {                                                                 \
                const int32_t group = set * p->lanes_y + g, image = group / per_image;                                 \
                const int32_t top = group % per_image * p->rows * c->stride_h - c->pad_top;                            \
                const float *plane = s->in + (s->channel + k) * pitch + (size_t)image * c->in_h * width;               \
                for (int32_t phase = 0; phase < phases; phase++) {                                                     \
                    float *to = s->slab + ((size_t)k * p->slab + (size_t)phase * p->slab_rows) * PK_V + g * L;         \
                    int32_t y = top + phase;                                                                           \
                    for (int32_t r = 0; r < p->slab_rows; r++, y += c->stride_h, to += PK_V) {                         \
                        if (image >= c->images || y < 0 || y >= c->in_h) {                                             \
                            for (int32_t x = 0; x < columns; x++) *(v##L *)(to + x * next_copy) = (v##L){0};           \
                            continue;                                                                                  \
                        }                                                                                              \
                        const float *row = plane + (size_t)y * width;                                                  \
                        if (!quick || row - s->in + column < 0 || s->in_end - row < column + columns + stride * L) {   \
                            for (int32_t x = 0; x < columns; x++)                                                      \
                                fill_lanes_slowly(to + x * next_copy, row, column + x, width, stride, L);              \
                            continue;                                                                                  \
                        }                                                                                              \
                        row += column;                                                                                 \
                        if (stride == 1)                                                                               \
                            for (int32_t x = 0; x < columns; x++)                                                      \
                                *(i##L *)(to + x * next_copy) = *(const i##L *)(row + x) & mask[x];                    \
                        else                                                                                           \
                            for (int32_t x = 0; x < columns; x++) {                                                    \
                                v##L a = *(const v##L *)(row + x), b = *(const v##L *)(row + x + L);                   \
                                *(i##L *)(to + x * next_copy) = (i##L)v##L##_even(a, b) & mask[x];                     \
                            }                                                                                          \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
    }                                                                                                                  \
    static void fill_slab_##L(const pk_conv_packed *p, const slab_source *s)                                           \
    {                                                                                                                  \
        const int32_t columns = p->conv.kernel_w, stride = p->conv.stride_w;                                           \
        if (columns == 3 && stride == 1) fill_##L(p, s, 3, 1);                                                         \
        else if (columns == 3 && stride == 2) fill_##L(p, s, 3, 2);                                                    \
        else if (columns == 1 && stride == 2) fill_##L(p, s, 1, 2);                                                    \
        else fill_##L(p, s, columns, stride);                                                                          \
    }
PK_FILL(4)
#if PK_V >= 8
PK_FILL(8)
#endif
#if PK_V >= 16
PK_FILL(16)
#endif

/* The slab of one tile, for some input channels. */
static void fill_slab(const pk_conv_packed *p, const float *in, float *slab, int32_t tile, int32_t channel, int32_t channels)
{
    const pk_conv *c = &p->conv;
    const size_t pitch = pk_pitch((size_t)c->images * c->in_h * c->in_w);
    const slab_source source = {in, in + pitch * c->in_channels, slab, tile, channel, channels};
#if PK_V >= 16
    if (p->lanes_x == 16) { fill_slab_16(p, &source); return; }
#endif
#if PK_V >= 8
    if (p->lanes_x == 8) { fill_slab_8(p, &source); return; }
#endif
    fill_slab_4(p, &source);
}

/* to = clamp(from + residual) for exactly `width` lanes: two parts that may overlap. */
#define PK_EMIT(L, I)                                                                            \
    {                                                                                            \
        v##L a = *(const v##L *)(from + (I));                                                    \
        if (residual) {                                                                          \
            a += *(const v##L *)(residual + (I));                                                \
            i##L low_mask = a > low, high_mask;                                                  \
            a = (v##L)((low_mask & (i##L)a) | (~low_mask & (i##L)((v##L){0} + low)));            \
            high_mask = a < high;                                                                \
            a = (v##L)((high_mask & (i##L)a) | (~high_mask & (i##L)((v##L){0} + high)));         \
        }                                                                                        \
        *(v##L *)(to + (I)) = a;                                                                 \
    }
PK_INLINE void emit(float *to, const float *from, const float *residual, float low, float high, int32_t width)
{
    if (PK_V == 16 && width == 16) PK_EMIT(16, 0)
    else if (width >= 8) {
        PK_EMIT(8, 0)
        if (width > 8) PK_EMIT(8, width - 8)
    } else if (width >= 4) {
        PK_EMIT(4, 0)
        if (width > 4) PK_EMIT(4, width - 4)
    } else
        for (int32_t i = 0; i < width; i++) {
            float a = from[i] + (residual ? residual[i] : 0.0f);
            if (residual) a = a < low ? low : a > high ? high : a;
            to[i] = a;
        }
}

/* From the tile of accumulators (outputs begin to end, `rows` vectors each) to planes. Without residual the walk has
 * clamped already. */
static void empty_tile(const pk_conv_packed *p, float *tiles, const float *residual, float *out, int32_t tile,
                       int32_t begin, int32_t end)
{
    const pk_conv *c = &p->conv;
    const size_t pitch = pk_pitch((size_t)c->images * c->out_h * c->out_w);
    const int32_t strip = tile % p->strips, set = tile / p->strips;
    const int32_t per_image = up(c->out_h, p->rows), lanes = p->lanes_x, column = strip * lanes;
    const int32_t width = least(lanes, c->out_w - column), clamp = is_clamp(c->activation);
    const float low = clamp_low(c->activation), high = clamp_high(c->activation);
    if (p->lanes_y == 1 && width == PK_V && clamp && !residual) { /* whole vectors */
        const int32_t image = set / per_image, top = set % per_image * p->rows, rows = least(p->rows, c->out_h - top);
        for (int32_t o = begin; o < end; o++) {
            const vf *from = (const vf *)tiles + (size_t)o * p->rows;
            float *to = out + o * pitch + ((size_t)image * c->out_h + top) * c->out_w + column;
            for (int32_t r = 0; r < rows; r++, to += c->out_w) v_store(to, from[r]);
        }
        return;
    }
    for (int32_t o = begin; o < end; o++) {
        float *from = tiles + (size_t)o * p->rows * PK_V;
        for (int32_t pass = clamp || !residual; pass < 2; pass++) { /* 0: the residual comes before what is no clamp */
            if (pass && !clamp) activate_vectors(c->activation, from, (size_t)p->rows);
            for (int32_t g = 0; g < p->lanes_y; g++) {
                int32_t group = set * p->lanes_y + g, image = group / per_image, top = group % per_image * p->rows;
                if (image >= c->images) break;
                int32_t rows = least(p->rows, c->out_h - top);
                size_t at = o * pitch + ((size_t)image * c->out_h + top) * c->out_w + column;
                for (int32_t r = 0; r < rows; r++, at += c->out_w) {
                    float *lane = from + r * PK_V + g * lanes;
                    if (pass) emit(out + at, lane, clamp && residual ? residual + at : NULL, low, high, width);
                    else
                        for (int32_t i = 0; i < width; i++) lane[i] += residual[at + i];
                }
            }
        }
    }
}
