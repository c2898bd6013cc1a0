/* A convolution from its description to its result: the choice of the method, the plan, the run. */

/* Above this share of kept connections the dense way is faster; measured (benchmarks/kernels.py --method) on Zen 4, where
 *              with a slab        on planes (1 x 1)
 *   AVX-512    0.66 to above 0.75   0.62 to 0.75
 *   AVX2       above 0.75           0.53 to 0.65
 *   SSE2       above 0.75           0.74 and above */
#if PK_V == 16
#define PK_CROSSOVER 0.75f
#define PK_CROSSOVER_DIRECT 0.66f
#elif PK_V == 8
#define PK_CROSSOVER 0.75f
#define PK_CROSSOVER_DIRECT 0.58f
#else
#define PK_CROSSOVER 0.9f
#define PK_CROSSOVER_DIRECT 0.85f
#endif

static pk_method choose(const pk_conv *c, size_t kept)
{
    int depth = c->groups == c->in_channels && c->groups > 1 && c->kernel_h <= 64 && c->kernel_w <= 64;
    if (c->method == PK_DEPTHWISE && c->groups != c->in_channels) return PK_DENSE;
    if (c->method != PK_AUTO) return (pk_method)c->method;
    if (depth) return PK_DEPTHWISE;
    float all = (float)c->out_channels * (float)(c->in_channels / c->groups) * (float)(c->kernel_h * c->kernel_w);
    return (float)kept / all > (is_direct(c) ? PK_CROSSOVER_DIRECT : PK_CROSSOVER) ? PK_DENSE : PK_SPARSE;
}

/* Fills the head of a plan; its bytes, or 0. */
static size_t conv_layout(const pk_conv *c, size_t kept, pk_conv_packed *p)
{
    if (!possible(c)) return 0;
    if (kept > (size_t)c->out_channels * (size_t)(c->in_channels / c->groups * c->kernel_h * c->kernel_w)) return 0;
    __builtin_memset(p, 0, sizeof *p);
    p->conv = *c;
    p->isa = PK_ISA;
    p->method = choose(c, kept);
    if (p->method == PK_DEPTHWISE) {
        p->units = c->out_channels;
        return depthwise_layout(p);
    }
    if (!fill_pixels(p, kept)) return 0;
    size_t bytes = 0;
    if (p->method == PK_SPARSE && fill_sparse(p, kept)) bytes = sparse_layout(p, kept);
    else if (fill_dense(p)) p->method = PK_DENSE, bytes = dense_layout(p);
    p->units = p->strips * p->row_groups * p->parts;
    return bytes;
}

static size_t conv_plan_bytes(const pk_conv *c, size_t kept)
{
    pk_conv_packed head;
    return conv_layout(c, kept, &head);
}

static size_t conv_scratch_bytes(const pk_conv *c, size_t kept)
{
    pk_conv_packed head;
    if (!conv_layout(c, kept, &head)) return 0;
    return head.method == PK_DEPTHWISE ? depthwise_scratch(&head) : sparse_scratch(&head);
}

static int connections_valid(const pk_conv *c, const uint32_t *first, const uint32_t *position)
{
    const uint32_t inputs = (uint32_t)(c->in_channels / c->groups * c->kernel_h * c->kernel_w);
    if (first[0] != 0) return 0;
    for (int32_t o = 0; o < c->out_channels; o++) {
        if (first[o + 1] < first[o] || first[o + 1] - first[o] > inputs) return 0;
        for (uint32_t k = first[o]; k < first[o + 1]; k++)
            if (position[k] >= inputs || (k > first[o] && position[k] <= position[k - 1])) return 0;
    }
    return 1;
}

static pk_conv_packed *conv_plan(const pk_conv *c, const uint32_t *first, const uint32_t *position, const float *value,
                                 const float *bias, void *memory)
{
    pk_conv_packed *p = memory, head;
    if (!possible(c) || !connections_valid(c, first, position)) return NULL;
    size_t end = conv_layout(c, first[c->out_channels], &head);
    if (!end) return NULL;
    *p = head;
    if (bias) __builtin_memcpy((char *)p + p->at_bias, bias, (size_t)c->out_channels * sizeof(float));
    else __builtin_memset((char *)p + p->at_bias, 0, (size_t)c->out_channels * sizeof(float));
    if (p->method == PK_SPARSE) sparse_plan(p, first, position, value, end);
    else if (p->method == PK_DENSE) dense_plan(p, first, position, value, end);
    else depthwise_plan(p, first, position, value, end);
    return p;
}

static void conv_run(const pk_conv_packed *p, const float *in, const float *residual, float *out, void *scratch,
                     int32_t begin, int32_t end)
{
    if (p->method == PK_SPARSE) sparse_run_units(p, in, residual, out, scratch, begin, end, 1, 0);
    else if (p->method == PK_DENSE) dense_run_units(p, in, residual, out, scratch, begin, end);
    else depthwise_run_units(p, in, 0, p->conv.in_channels, 0, residual, out, scratch, begin, end);
}
