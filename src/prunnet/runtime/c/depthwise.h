/* Depthwise convolution: one input plane, one small kernel, one output plane. The plane is copied once with its border of
 * zeros, columns divided by the stride, so that every tap reads neighbouring floats. */

PK_INLINE int32_t depth_width(const pk_conv *c) /* columns of one phase of a padded row, room for the last vector */
{
    return (up(c->out_w, PK_V) * PK_V + (c->kernel_w - 1) / c->stride_w + PK_V - 1) / PK_V * PK_V;
}

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
    memset(weights, 0, end - p->at_weights);
    for (int32_t o = 0; o < p->conv.out_channels; o++)
        for (uint32_t k = first[o]; k < first[o + 1]; k++) weights[o * area + position[k]] = value[k];
}

PK_INLINE int32_t depth_rows(const pk_conv *c) { return (c->out_h - 1) * c->stride_h + c->kernel_h; }

static size_t depthwise_scratch(const pk_conv_packed *p)
{
    const pk_conv *c = &p->conv;
    return align((size_t)depth_rows(c) * least(c->stride_w, c->kernel_w) * depth_width(c) * 4);
}

static void depthwise_pad(const pk_conv *c, const float *in, float *to)
{
    const int32_t width = depth_width(c), phases = least(c->stride_w, c->kernel_w), rows = depth_rows(c);
    for (int32_t r = 0; r < rows; r++) {
        int32_t y = r - c->pad_top;
        for (int32_t phase = 0; phase < phases; phase++, to += width) {
            memset(to, 0, (size_t)width * 4);
            if (y < 0 || y >= c->in_h) continue;
            const float *row = in + (size_t)y * c->in_w;
            for (int32_t i = 0; i < width; i++) {
                int32_t x = i * c->stride_w + phase - c->pad_left;
                if (x >= c->in_w) break;
                if (x >= 0) to[i] = row[x];
            }
        }
    }
}

static void depthwise_run_units(const pk_conv_packed *p, const float *in, const float *residual, float *out, float *scratch,
                                int32_t begin, int32_t end)
{
    const pk_conv *c = &p->conv;
    const size_t in_pitch = pk_pitch((size_t)c->images * c->in_h * c->in_w);
    const size_t out_pitch = pk_pitch((size_t)c->images * c->out_h * c->out_w), area = (size_t)c->kernel_h * c->kernel_w;
    const float *bias = (const float *)((const char *)p + p->at_bias);
    const int32_t multiplier = c->out_channels / c->groups;
    const int32_t width = depth_width(c), phases = least(c->stride_w, c->kernel_w);
    for (int32_t o = begin; o < end; o++)
        for (int32_t image = 0; image < c->images; image++) {
            const float *weight = (const float *)((const char *)p + p->at_weights) + o * area;
            depthwise_pad(c, in + o / multiplier * in_pitch + (size_t)image * c->in_h * c->in_w, scratch);
            for (int32_t y = 0; y < c->out_h; y++)
                for (int32_t x = 0; x < c->out_w; x += PK_V) {
                    vf a = v_all(bias[o]);
                    for (int32_t ky = 0; ky < c->kernel_h; ky++)
                        for (int32_t kx = 0; kx < c->kernel_w; kx++)
                            a += weight[ky * c->kernel_w + kx] *
                                 v_load(scratch + ((size_t)(y * c->stride_h + ky) * phases + kx % c->stride_w) * width +
                                        kx / c->stride_w + x);
                    size_t at = o * out_pitch + ((size_t)image * c->out_h + y) * c->out_w + x;
                    int32_t n = least(PK_V, c->out_w - x);
                    if (residual)
                        for (int32_t i = 0; i < n; i++) a[i] += residual[at + i];
                    activate_vectors(c->activation, (float *)&a, 1);
                    for (int32_t i = 0; i < n; i++) out[at + i] = a[i];
                }
        }
}
