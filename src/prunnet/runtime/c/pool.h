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

static void max_pool(const pk_pool *pool, const float *in, float *out, int32_t begin, int32_t end)
{
    pool_planes(pool, in, out, begin, end, 1);
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
