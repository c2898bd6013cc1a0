/* Pooling. */

PK_INLINE void pool_planes(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end, int max)
{
    const size_t in_pitch = pk_pitch((size_t)pool->images * pool->in_h * pool->in_w);
    const size_t out_pitch = pk_pitch((size_t)pool->images * pool->out_h * pool->out_w);
    for (int32_t k = begin; k < end; k++)
        for (int32_t image = 0; image < pool->images; image++)
            for (int32_t y = 0; y < pool->out_h; y++) {
                const float *plane = in + k * in_pitch + (size_t)image * pool->in_h * pool->in_w;
                float *to = out + k * out_pitch + ((size_t)image * pool->out_h + y) * pool->out_w;
                int32_t top = y * pool->stride_h - pool->pad_top;
                int32_t low = top < 0 ? 0 : top, high = top + pool->kernel_h;
                if (high > pool->in_h) high = pool->in_h;
                for (int32_t x = 0; x < pool->out_w; x++) {
                    int32_t left = x * pool->stride_w - pool->pad_left;
                    int32_t from = left < 0 ? 0 : left, until = left + pool->kernel_w;
                    if (until > pool->in_w) until = pool->in_w;
                    float value = max ? -3.4e38f : 0.0f;
                    for (int32_t r = low; r < high; r++)
                        for (int32_t i = from; i < until; i++) {
                            float v = plane[(size_t)r * pool->in_w + i];
                            value = max ? (v > value ? v : value) : value + v;
                        }
                    int32_t count = pool->count_pad ? pool->kernel_h * pool->kernel_w : (high - low) * (until - from);
                    to[x] = max ? value : value / (float)most(count, 1);
                }
            }
}

/* Maximum over K x K with stride S by vectors of columns. A row whose vectors would leave the buffer goes pixel by pixel. */
#define PK_MAX_POOL(L, K, S)                                                                                        \
    static void max_pool_##L##_##K##_##S(const pk_pool *pool, const float *in, const float *low, const float *high, \
                                         float *out)                                                                \
    {                                                                                                               \
        const v##L least_of_all = -3.4e38f - (v##L){0};                                                             \
        for (int32_t x = 0; x < pool->out_w; x += L) {                                                              \
            const int32_t column = x * S - pool->pad_left, wide = least(L, pool->out_w - x);                        \
            i##L mask[K];                                                                                           \
            PK_UNROLL for (int kx = 0; kx < K; kx++) {                                                              \
                const i##L at = PK_LANES_##L * S + (column + kx);                                                   \
                mask[kx] = (at >= 0) & (at < pool->in_w);                                                           \
            }                                                                                                       \
            for (int32_t y = 0; y < pool->out_h; y++) {                                                             \
                v##L a = least_of_all;                                                                              \
                float *to = out + (size_t)y * pool->out_w + x;                                                      \
                PK_UNROLL for (int ky = 0; ky < K; ky++) {                                                          \
                    const int32_t row = y * S + ky - pool->pad_top;                                                 \
                    if (row < 0 || row >= pool->in_h) continue;                                                     \
                    const float *line = in + (ptrdiff_t)row * pool->in_w;                                           \
                    if (line - low + column < 0 || high - line < column + K + S * L) {                              \
                        for (int32_t i = 0; i < wide; i++)                                                          \
                            for (int kx = 0; kx < K; kx++) {                                                        \
                                int32_t at = column + kx + i * S;                                                   \
                                if (at >= 0 && at < pool->in_w && line[at] > a[i]) a[i] = line[at];                 \
                            }                                                                                       \
                        continue;                                                                                   \
                    }                                                                                               \
                    PK_UNROLL for (int kx = 0; kx < K; kx++) {                                                      \
                        v##L v = *(const v##L *)(line + column + kx);                                               \
                        if (S == 2) v = v##L##_even(v, *(const v##L *)(line + column + kx + L));                    \
                        const i##L more = (v > a) & mask[kx];                                                       \
                        a = (v##L)((more & (i##L)v) | (~more & (i##L)a));                                           \
                    }                                                                                               \
                }                                                                                                   \
                emit(to, (const float *)&a, NULL, 0, 0, wide);                                                      \
            }                                                                                                       \
        }                                                                                                           \
    }
#if PK_V == 16
PK_MAX_POOL(16, 2, 2) PK_MAX_POOL(16, 3, 2)
#define max_pool_2_2 max_pool_16_2_2
#define max_pool_3_2 max_pool_16_3_2
#elif PK_V == 8
PK_MAX_POOL(8, 2, 2) PK_MAX_POOL(8, 3, 2)
#define max_pool_2_2 max_pool_8_2_2
#define max_pool_3_2 max_pool_8_3_2
#else
PK_MAX_POOL(4, 2, 2) PK_MAX_POOL(4, 3, 2)
#define max_pool_2_2 max_pool_4_2_2
#define max_pool_3_2 max_pool_4_3_2
#endif

static void max_pool(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end)
{
    const int32_t k = pool->kernel_h, usual = k == pool->kernel_w && (k == 2 || k == 3) && pool->stride_h == 2 && pool->stride_w == 2;
    if (!usual) {
        pool_planes(pool, in, out, begin, end, 1);
        return;
    }
    const size_t in_pitch = pk_pitch((size_t)pool->images * pool->in_h * pool->in_w);
    const size_t out_pitch = pk_pitch((size_t)pool->images * pool->out_h * pool->out_w);
    const float *low = in + begin * in_pitch, *high = in + end * in_pitch; /* what surely exists */
    for (int32_t channel = begin; channel < end; channel++)
        for (int32_t image = 0; image < pool->images; image++) {
            const float *from = in + channel * in_pitch + (size_t)image * pool->in_h * pool->in_w;
            float *to = out + channel * out_pitch + (size_t)image * pool->out_h * pool->out_w;
            (k == 2 ? max_pool_2_2 : max_pool_3_2)(pool, from, low, high, to);
        }
}

static void average_pool(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end)
{
    pool_planes(pool, in, out, begin, end, 0);
}

static void global_average(int32_t images, int32_t pixels, const float *in, float *out, int32_t begin, int32_t end)
{
    const size_t pitch = pk_pitch((size_t)images * pixels), out_pitch = pk_pitch((size_t)images);
    for (int32_t k = begin; k < end; k++)
        for (int32_t image = 0; image < images; image++) {
            const float *at = in + k * pitch + (size_t)image * pixels;
            vf total = {0};
            int32_t i = 0;
            for (; i + PK_V <= pixels; i += PK_V) total += v_load(at + i);
            float sum = v_sum(total);
            for (; i < pixels; i++) sum += at[i];
            out[k * out_pitch + image] = sum / (float)pixels;
        }
}
