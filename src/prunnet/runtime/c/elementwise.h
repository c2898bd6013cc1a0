/* One value in, one value out: activations, sums, products, gates. Whole planes with their scratch at the end, by vectors. */

static void activate(int32_t pixels, int32_t activation, const float *in, float *out, int32_t begin, int32_t end)
{
    const size_t pitch = pk_pitch((size_t)pixels), n = pitch * (size_t)(end - begin), at = (size_t)begin * pitch;
    if (in != out) __builtin_memcpy(out + at, in + at, n * sizeof(float));
    activate_vectors(activation, out + at, n / PK_V);
}

static void add(int32_t pixels, int32_t activation, const float *a, const float *b, float *out, int32_t begin, int32_t end)
{
    const size_t pitch = pk_pitch((size_t)pixels);
    for (int32_t k = begin; k < end; k++) {
        for (size_t i = k * pitch; i < (k + 1) * pitch; i += PK_V) *(vf *)(out + i) = *(const vf *)(a + i) + *(const vf *)(b + i);
        activate_vectors(activation, out + k * pitch, pitch / PK_V);
    }
}

static void multiply(int32_t pixels, const float *a, const float *b, float *out, int32_t begin, int32_t end)
{
    const size_t pitch = pk_pitch((size_t)pixels);
    for (size_t i = (size_t)begin * pitch; i < (size_t)end * pitch; i += PK_V)
        *(vf *)(out + i) = *(const vf *)(a + i) * *(const vf *)(b + i);
}

static void affine(int32_t pixels, const float *scale, const float *shift, const float *in, float *out, int32_t begin,
                   int32_t end)
{
    const size_t pitch = pk_pitch((size_t)pixels);
    for (int32_t k = begin; k < end; k++)
        for (size_t i = k * pitch; i < (k + 1) * pitch; i += PK_V)
            *(vf *)(out + i) = *(const vf *)(in + i) * scale[k] + shift[k];
}

static void gate(int32_t images, int32_t pixels, int32_t activation, const float *in, const float *by, float *out,
                 int32_t begin, int32_t end)
{
    const size_t pitch = pk_pitch((size_t)images * pixels), gates = pk_pitch((size_t)images);
    for (int32_t k = begin; k < end; k++) {
        float *to = out + k * pitch;
        const float *from = in + k * pitch;
        for (int32_t image = 0; image < images; image++) {
            float factor = by[k * gates + image];
            int32_t i = image * pixels, until = i + pixels;
            for (; i + PK_V <= until; i += PK_V) v_store(to + i, v_load(from + i) * factor);
            for (; i < until; i++) to[i] = from[i] * factor;
        }
        activate_vectors(activation, to, pitch / PK_V);
    }
}
