/* A 1 x 1 convolution and the depthwise one that alone reads it, a few channels at a time: what is between them, the
 * largest planes of an inverted bottleneck, stays in the second cache. */

static int32_t pair_parts(const pk_conv *c)
{
    const size_t plane = pk_pitch((size_t)c->images * c->out_h * c->out_w) * sizeof(float);
    const size_t together = PK_PAIR_BYTES / plane; /* channels */
    const int32_t parts = up(c->out_channels, together > 4 ? (int32_t)together : 4);
    return c->out_channels < 8 ? 1 : least(parts, 64);
}

static int pair_fits(const pk_conv_packed *a, const pk_conv_packed *b)
{
    return a->method == PK_SPARSE && a->direct && b->method == PK_DEPTHWISE && a->conv.out_channels == b->conv.in_channels &&
           b->conv.out_channels == b->conv.in_channels && a->conv.images == b->conv.images &&
           a->conv.out_h == b->conv.in_h && a->conv.out_w == b->conv.in_w;
}

static size_t pair_margin(const pk_conv_packed *b) { return align(depth_margin(&b->conv) * sizeof(float)); }

static size_t pair_planes(const pk_conv_packed *a, const pk_conv_packed *b) /* bytes of the planes of one part, and around */
{
    const pk_conv *c = &a->conv;
    return pk_planes_bytes((size_t)up(c->out_channels, a->parts), (size_t)c->images * c->out_h * c->out_w) + 2 * pair_margin(b);
}

static size_t pair_scratch_bytes(const pk_conv_packed *a, const pk_conv_packed *b)
{
    return pair_fits(a, b) ? pair_planes(a, b) + depthwise_scratch(b) : 0;
}

static void pair_run(const pk_conv_packed *a, const pk_conv_packed *b, const float *in, float *out, void *scratch,
                     int32_t begin, int32_t end)
{
    float *between = (float *)((char *)scratch + pair_margin(b)), *rest = (float *)((char *)scratch + pair_planes(a, b));
    for (int32_t part = begin; part < end; part++) {
        const int32_t from = part_begin(a, part), to = part_begin(a, part + 1);
        sparse_run_units(a, in, NULL, between, NULL, part, a->units, a->parts, from);
        depthwise_run_units(b, between, from, to - from, 1, NULL, out, rest, from, to);
    }
}
