/* What a vision transformer needs besides linear layers. Vectors go along tokens, so that sums over channels or over keys
 * are sums of vectors. */

static float square_root(float x)
{
    return __builtin_sqrtf(x);
}

static void layer_norm(int32_t channels, int32_t pixels, const float *scale, const float *shift, float epsilon,
                       const float *in, float *out, int32_t begin, int32_t end)
{
    const size_t pitch = pk_pitch((size_t)pixels);
    const float share = 1.0f / (float)channels;
    for (int32_t at = begin; at < end; at += 4 * PK_V) {
        const int32_t n = least(4, up(end - at, PK_V));
        vf mean[4] = {{0}}, square[4] = {{0}};
        for (int32_t k = 0; k < channels; k++)
            for (int32_t j = 0; j < n; j++) mean[j] += *(const vf *)(in + k * pitch + at + j * PK_V);
        for (int32_t j = 0; j < n; j++) mean[j] *= share;
        for (int32_t k = 0; k < channels; k++)
            for (int32_t j = 0; j < n; j++) {
                vf v = *(const vf *)(in + k * pitch + at + j * PK_V) - mean[j];
                square[j] += v * v;
            }
        for (int32_t j = 0; j < n; j++)
            for (int i = 0; i < PK_V; i++) square[j][i] = 1.0f / square_root(square[j][i] * share + epsilon);
        for (int32_t k = 0; k < channels; k++)
            for (int32_t j = 0; j < n; j++) {
                vf v = (*(const vf *)(in + k * pitch + at + j * PK_V) - mean[j]) * square[j];
                *(vf *)(out + k * pitch + at + j * PK_V) = v * scale[k] + shift[k];
            }
    }
}

static void tokens(int32_t images, int32_t channels, int32_t pixels, int32_t prefix, const float *first,
                   const float *position, const float *in, float *out)
{
    const int32_t count = prefix + pixels;
    const size_t in_pitch = pk_pitch((size_t)images * pixels), out_pitch = pk_pitch((size_t)images * count);
    for (int32_t k = 0; k < channels; k++)
        for (int32_t image = 0; image < images; image++) {
            float *to = out + k * out_pitch + (size_t)image * count;
            for (int32_t i = 0; i < prefix; i++) to[i] = first[(size_t)k * prefix + i];
            __builtin_memcpy(to + prefix, in + k * in_pitch + (size_t)image * pixels, (size_t)pixels * sizeof(float));
            if (position)
                for (int32_t i = 0; i < count; i++) to[i] += position[(size_t)k * count + i];
        }
}

/* A span of queries is up to PK_QUERIES vectors; keys, and then channels of the result, come PK_KEYS at a time. */
#if PK_V == 16 || defined(__aarch64__)
#define PK_KEYS 5
#define PK_QUERIES 5
#elif PK_V == 8
#define PK_KEYS 4
#define PK_QUERIES 3
#else
#define PK_KEYS 4
#define PK_QUERIES 2
#endif

static size_t attention_scratch_bytes(int32_t dim, int32_t tokens)
{
    const size_t span = PK_QUERIES * PK_V, channels = (size_t)up(dim, PK_KEYS) * PK_KEYS;
    return align((2 * channels + (size_t)up(tokens, PK_KEYS) * PK_KEYS) * span * sizeof(float));
}

/* y[m] = sum over k of factor[m * across + k * along] x[k], m < n, where x and y are rows of Q vectors. */
#define PK_COMBINE(Q)                                                                                                  \
    static void combine_##Q(float *y, const float *x, const float *factor, size_t across, size_t along, int32_t terms, \
                            int32_t n)                                                                                 \
    {                                                                                                                  \
        vf a[PK_KEYS][Q];                                                                                              \
        const float *row[PK_KEYS];                                                                                     \
        PK_UNROLL for (int m = 0; m < PK_KEYS; m++) {                                                                  \
            row[m] = factor + (m < n ? m : 0) * across;                                                                \
            PK_UNROLL for (int j = 0; j < Q; j++) a[m][j] = (vf){0};                                                   \
        }                                                                                                              \
        for (int32_t k = 0; k < terms; k++) {                                                                          \
            vf v[Q];                                                                                                   \
            PK_UNROLL for (int j = 0; j < Q; j++) v[j] = ((const vf *)x)[k * Q + j];                                   \
            PK_UNROLL for (int m = 0; m < PK_KEYS; m++) {                                                              \
                vf f = v_all(row[m][k * along]);                                                                       \
                PK_UNROLL for (int j = 0; j < Q; j++) a[m][j] += f * v[j];                                             \
            }                                                                                                          \
        }                                                                                                              \
        PK_UNROLL for (int m = 0; m < PK_KEYS; m++)                                                                    \
            PK_UNROLL for (int j = 0; j < Q; j++) ((vf *)y)[m * Q + j] = a[m][j];                                      \
    }
PK_COMBINE(1) PK_COMBINE(2)
#if PK_QUERIES > 2
PK_COMBINE(3)
#endif
#if PK_QUERIES > 3
PK_COMBINE(4) PK_COMBINE(5)
#endif
static void (*const combine[])(float *, const float *, const float *, size_t, size_t, int32_t, int32_t) = {
    NULL, combine_1, combine_2,
#if PK_QUERIES > 2
    combine_3,
#endif
#if PK_QUERIES > 3
    combine_4, combine_5,
#endif
};

/* exp(share - largest) over keys, and in total the reciprocal of its sum: rows of `span` floats. */
static void soften(float *share, vf *total, int32_t tokens, int32_t span)
{
    for (int32_t j = 0; j < span; j += PK_V) {
        vf high = *(vf *)(share + j), sum = {0};
        for (int32_t key = 1; key < tokens; key++) high = v_max(high, *(vf *)(share + (size_t)key * span + j));
        for (int32_t key = 0; key < tokens; key++) {
            vf *to = (vf *)(share + (size_t)key * span + j);
            *to = v_exp(*to - high);
            sum += *to;
        }
        total[j / PK_V] = 1.0f / sum;
    }
}

static void attention(int32_t images, int32_t tokens, int32_t dim, float scale, const float *q, const float *k,
                      const float *v, float *out, void *scratch, int32_t begin, int32_t end)
{
    const size_t pitch = pk_pitch((size_t)images * tokens), channels = (size_t)up(dim, PK_KEYS) * PK_KEYS;
    const int32_t vectors = up(tokens, PK_V), step = up(vectors, up(vectors, PK_QUERIES));
    float *query = scratch, *result = query + channels * PK_QUERIES * PK_V, *share = result + channels * PK_QUERIES * PK_V;
    vf total[PK_QUERIES];
    for (int32_t work = begin * images; work < end * images; work++) {
        const int32_t head = work / images, image = work % images;
        const size_t plane = (size_t)head * dim * pitch + (size_t)image * tokens;
        for (int32_t at = 0; at < tokens; at += step * PK_V) {
            const int32_t width = least(step, up(tokens - at, PK_V)), span = width * PK_V, n = least(span, tokens - at);
            for (int32_t i = 0; i < dim; i++) {
                float *to = query + (size_t)i * span;
                const float *from = q + plane + i * pitch + at;
                for (int32_t j = 0; j < n; j++) to[j] = from[j] * scale;
                for (int32_t j = n; j < span; j++) to[j] = 0.0f;
            }
            for (int32_t key = 0; key < tokens; key += PK_KEYS)
                combine[width](share + (size_t)key * span, query, k + plane + key, 1, pitch, dim, tokens - key);
            soften(share, total, tokens, span);
            for (int32_t i = 0; i < dim; i += PK_KEYS)
                combine[width](result + (size_t)i * span, share, v + plane + i * pitch, pitch, 1, tokens, dim - i);
            for (int32_t i = 0; i < dim; i++) {
                vf *row = (vf *)(result + (size_t)i * span);
                for (int32_t j = 0; j < width; j++) row[j] *= total[j];
                __builtin_memcpy(out + plane + i * pitch + at, row, (size_t)n * sizeof(float));
            }
        }
    }
}

static void rows(int32_t channels, int32_t pixels, int32_t normalise, const float *in, float *out)
{
    const size_t pitch = pk_pitch((size_t)pixels);
    for (int32_t i = 0; i < pixels; i++) {
        double length = 0;
        for (int32_t k = 0; k < channels; k++) {
            float value = in[k * pitch + i];
            out[(size_t)i * channels + k] = value;
            length += (double)value * value;
        }
        if (!normalise) continue;
        float by = square_root((float)length);
        by = 1.0f / (by > 1e-12f ? by : 1e-12f);
        for (int32_t k = 0; k < channels; k++) out[(size_t)i * channels + k] *= by;
    }
}
