/* How the pixels of an output plane fill vectors, and the slab of shifted inputs that makes every load aligned.
 *
 * A vector is lanes_x neighbouring columns of lanes_y groups of rows; a group is `rows` neighbouring rows of one image,
 * and accumulator r holds row r of its groups. With the input stored the same way, one plane for every column of the
 * kernel, moving down the kernel is the next vector and moving along it another plane: no load is misaligned and nothing
 * depends on the width of the image. The slab is made for one unit of work at a time (one strip of lanes_x columns, one
 * set of lanes_y groups), which keeps it in the second cache, and walked in blocks of input channels that fit the first.
 *
 * A stride divides rows into phases: kernel row y reads phase y % stride, y / stride vectors further down. */

#define PK_FIRST_CACHE (48 * 1024) /* a block of inputs: measured best, though half of it may come from the second cache */
#define PK_PAIR_BYTES (256 * 1024) /* planes between an expansion and its depthwise convolution */
#define PK_TILE 7                  /* accumulators of the sparse walk: more make blocks smaller and gain nothing */

/* Dense, as many outputs (PK_M) times vectors (PK_N) as there are registers for, with one weight and the inputs or the
 * weights; without a fused multiply-add one more is taken. Its tiles are a multiple of PK_N. */
#define PK_M 4
#if PK_V == 16
#define PK_N 7
#elif PK_V == 8
#define PK_N 3
#elif defined(__aarch64__)
#define PK_N 5
#else
#define PK_N 2
#endif
#define PK_DENSE_TILE (PK_N == 7 ? 14 : PK_N == 3 ? 12 : PK_N == 5 ? 10 : 8)

PK_INLINE int32_t up(int32_t a, int32_t b) { return (a + b - 1) / b; }
PK_INLINE size_t align(size_t bytes) { return (bytes + PK_ALIGN - 1) / PK_ALIGN * PK_ALIGN; }
PK_INLINE int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
PK_INLINE int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

PK_INLINE int within(int32_t value, int32_t low, int32_t high) { return value >= low && value <= high; }

/* Sizes so small that no product of them below overflows, on 32-bit machines either. */
static int possible(const pk_conv *c)
{
    const int32_t sides[] = {c->images, c->in_h, c->in_w, c->out_h, c->out_w};
    const int32_t windows[] = {c->kernel_h, c->kernel_w, c->stride_h, c->stride_w, c->pad_top + 1, c->pad_left + 1};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        if (!within(sides[i], 1, 1 << 14)) return 0;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        if (!within(windows[i], 1, 1 << 10)) return 0;
    if (!within(c->in_channels, 1, 1 << 20) || !within(c->out_channels, 1, 1 << 20) || !within(c->groups, 1, 1 << 20)) return 0;
    if (c->in_channels % c->groups || c->out_channels % c->groups) return 0;
    if ((c->out_h - 1) * c->stride_h > c->in_h + 2048 || (c->out_w - 1) * c->stride_w > c->in_w + 2048) return 0;
    const int64_t in = (int64_t)c->images * c->in_h * c->in_w, out = (int64_t)c->images * c->out_h * c->out_w;
    const int64_t inputs = (int64_t)(c->in_channels / c->groups) * c->kernel_h * c->kernel_w, floats = (int64_t)1 << 28;
    if (in > floats || out > floats || inputs > floats || inputs * c->out_channels > 1 << 27) return 0;
    if ((int64_t)pk_pitch((size_t)in) * c->in_channels > floats || (int64_t)pk_pitch((size_t)out) * c->out_channels > floats)
        return 0;
    return within(c->activation, 0, PK_ACTIVATIONS - 1) && within(c->method, PK_AUTO, PK_DEPTHWISE);
}

PK_INLINE int is_direct(const pk_conv *c)
{
    return c->kernel_h == 1 && c->kernel_w == 1 && c->stride_h == 1 && c->stride_w == 1 && !c->pad_top && !c->pad_left &&
           c->in_h == c->out_h && c->in_w == c->out_w;
}

/* Cycles of one unit, about: the walk over connections, filling the slab, emptying the tile, and what each block of
 * inputs adds by loading and storing the accumulators of all outputs. */
static float unit_cost(const pk_conv *c, float kept, int32_t lanes, int32_t rows)
{
    const float groups = (float)(PK_V / lanes), outputs = (float)c->out_channels, inputs = (float)c->in_channels;
    const float copies = (float)(c->kernel_w * least(c->stride_h, c->kernel_h));
    const float slab = copies * (float)(rows + (c->kernel_h - 1) / c->stride_h);
    const float blocks = inputs * slab * (PK_V * 4) / PK_FIRST_CACHE + 1;
    return kept * ((float)rows + 1.5f) + inputs * slab * groups * 3 + outputs * (float)rows * groups * 4 +
           blocks * outputs * (2 * (float)rows + 8);
}

/* Fills lanes, rows, strips, row groups and slab of a plan whose convolution is set. 0: too large. */
static int fill_pixels(pk_conv_packed *p, size_t kept)
{
    const pk_conv *c = &p->conv;
    const int32_t tallest = p->method == PK_DENSE ? PK_DENSE_TILE : PK_TILE;
    p->direct = is_direct(c);
    if (p->direct) {
        int32_t vectors = up(c->images * c->out_h * c->out_w, PK_V);
        p->tile = up(vectors, up(vectors, tallest));
        p->strips = up(vectors, p->tile);
        p->row_groups = p->lanes_y = 1, p->lanes_x = PK_V, p->rows = p->tile;
        p->slab = p->tile; /* for the choice of blocks only */
        return 1;
    }
    float best = 0;
    for (int32_t lanes = PK_V; lanes >= 4; lanes /= 2)
        for (int32_t rows = 1; rows <= tallest; rows++) {
            int32_t strips = up(c->out_w, lanes), sets = up(c->images * up(c->out_h, rows), PK_V / lanes);
            float cost = (float)strips * (float)sets * unit_cost(c, (float)kept, lanes, rows);
            if (best == 0 || cost < best) {
                best = cost;
                p->lanes_x = lanes, p->lanes_y = PK_V / lanes, p->rows = p->tile = rows;
                p->strips = strips, p->row_groups = sets;
            }
        }
    p->copies = c->kernel_w * least(c->stride_h, c->kernel_h);
    p->slab_rows = p->rows + (c->kernel_h - 1) / c->stride_h;
    p->slab = p->copies * p->slab_rows;
    if (p->slab > 65535 || (int64_t)p->slab * c->in_channels > 1 << 26) return 0;
    return (int64_t)p->strips * p->row_groups < 1 << 30;
}

/* Where in the slab of its channel a connection reads, in vectors. */
PK_INLINE int32_t slab_offset(const pk_conv_packed *p, int32_t y, int32_t x)
{
    const pk_conv *c = &p->conv;
    int32_t phases = least(c->stride_h, c->kernel_h);
    return (x * phases + y % c->stride_h) * p->slab_rows + y / c->stride_h;
}

