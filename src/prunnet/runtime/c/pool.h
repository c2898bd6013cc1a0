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

/* Maximum over K x K with stride 2 by vectors of columns: first down the column, then every second float. A row whose
 * vectors would leave the buffer (low to high) goes pixel by pixel. */
PK_INLINE void max_pool_plane(const pk_pool *pool, const float *in, const float *low, const float *high, float *out, const int K)
{
    const vf least_of_all = v_all(-3.4e38f);
    vi lanes;
    for (int i = 0; i < PK_V; i++) lanes[i] = 2 * i;
    for (int32_t x = 0; x < pool->out_w; x += PK_V) {
        const int32_t column = 2 * x - pool->pad_left, wide = least(PK_V, pool->out_w - x);
        for (int32_t y = 0; y < pool->out_h; y++) {
            const int32_t top = 2 * y - pool->pad_top, first = most(top, 0), last = least(top + K, pool->in_h) - 1;
            const float *line = in + (ptrdiff_t)first * pool->in_w + column;
            const int safe = line >= low && high - line >= (ptrdiff_t)(last - first) * pool->in_w + K + 2 * PK_V;
            vf a = least_of_all;
            if (!safe || last < first) {
                for (int32_t row = first; row <= last; row++)
                    for (int32_t i = 0; i < wide * K; i++) {
                        int32_t at = column + i / K * 2 + i % K;
                        float v = at >= 0 && at < pool->in_w ? in[(size_t)row * pool->in_w + at] : -3.4e38f;
                        if (v > a[i / K]) a[i / K] = v;
                    }
            } else
                PK_UNROLL for (int kx = 0; kx < K; kx++) {
                    vf even = v_load(line + kx), odd = v_load(line + kx + PK_V);
                    for (int32_t row = 1; row <= last - first; row++) {
                        even = v_max(even, v_load(line + (size_t)row * pool->in_w + kx));
                        odd = v_max(odd, v_load(line + (size_t)row * pool->in_w + kx + PK_V));
                    }
                    const vi at = lanes + (column + kx), inside = (at >= 0) & (at < pool->in_w);
                    a = v_max(a, v_select(inside, v_even(even, odd), least_of_all));
                }
            emit(out + (size_t)y * pool->out_w + x, (const float *)&a, NULL, 0, 0, wide);
        }
    }
}

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
            if (k == 2) max_pool_plane(pool, from, low, high, to, 2);
            else max_pool_plane(pool, from, low, high, to, 3);
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
