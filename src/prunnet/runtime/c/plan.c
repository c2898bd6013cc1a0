#include "plan.h"

#include "prunnet.h"
#include "views.h"

enum { CHANNELS_OF_IMAGE = 1 << 1, HEADS = 1 << 1 | 1 << 3 };
#define LARGEST_ARENA ((size_t)1 << 30)
enum { COPIES = 16 }; /* of all tensors together: far more than a network has reason for */

/* What a convolution takes with it, and where that ends; of a sum or product, an activation. */
typedef struct {
    const prun_operation *norm, *sum;
    int32_t residual; /* the other input of the sum */
    int activation;
    int32_t result; /* the value that all of it gives */
} chain;

typedef struct {
    prun_plan *plan;
    const prun_header *header;
    const prun_program *program;
    float **tensors;
    prun_view *views; /* of the image and each result */
    int *users;       /* how often each of them is read */
    int *user;        /* the last operation that does */
    int *owner;       /* the operation, plus one, whose chain an operation belongs to; 0: its own */
    chain *chains;
    uint64_t allowed; /* bytes that the plan may still take beside its arena */
    prun_problem *problem;
} planner;

static int no_memory(planner *p)
{
    return prun_fail(p->problem, PRUNNET_MEMORY, "there is not enough memory to run it");
}

static int refused(planner *p, int index, const char *what)
{
    return prun_fail(p->problem, PRUNNET_DAMAGED, "it cannot be run: operation %d of its program %s", (int64_t)index, what);
}

static int too_much(planner *p)
{
    return prun_fail(p->problem, PRUNNET_DAMAGED, "it cannot be run: it needs too much memory");
}

/* Counts memory that the plan keeps. A program may read one tensor many times over, so all of it together is bounded. */
static int keep(planner *p, size_t bytes)
{
    if (bytes > p->allowed)
        return too_much(p);
    p->allowed -= bytes;
    return 0;
}

/* Growing lists */

static void *grown(void *items, int *room, int count, size_t size)
{
    if (count < *room)
        return items;
    int larger = *room ? 2 * *room : 64;
    void *found = prun_allocate_array((uint64_t)larger, size);
    if (!found)
        return NULL;
    if (items)
        memcpy(found, items, (size_t)count * size);
    prun_release(items);
    *room = larger;
    return found;
}

static int add_buffer(planner *p, prun_view *view)
{
    prun_plan *plan = p->plan;
    prun_buffer *found = grown(plan->buffers, &plan->buffers_room, plan->buffers_count, sizeof *found);
    if (!found)
        return no_memory(p);
    plan->buffers = found;
    if ((uint64_t)view->planes * pk_pitch((size_t)view->pixels) * sizeof(float) > LARGEST_ARENA)
        return prun_fail(p->problem, PRUNNET_DAMAGED, "it cannot be run: one of its values is too large");
    size_t bytes = pk_planes_bytes((size_t)view->planes, (size_t)view->pixels);
    found[plan->buffers_count] = (prun_buffer){.bytes = bytes, .first = plan->count, .last = plan->count};
    view->buffer = plan->buffers_count++;
    view->offset = 0;
    return 0;
}

/* A new step with a result of its own, in the given layout. */
static prun_step *add_step(planner *p, prun_step_kind kind, const prun_shape *shape, unsigned channels)
{
    prun_plan *plan = p->plan;
    prun_step *found = grown(plan->steps, &plan->room, plan->count, sizeof *found);
    if (!found) {
        no_memory(p);
        return NULL;
    }
    plan->steps = found;
    prun_step *step = found + plan->count;
    *step = (prun_step){.kind = kind, .out = prun_view_of(shape, channels)};
    if (add_buffer(p, &step->out))
        return NULL;
    plan->count++;
    return step;
}

static void give(planner *p, prun_step *step, const prun_view *view)
{
    step->in[step->inputs++] = *view;
    prun_buffer *buffer = p->plan->buffers + view->buffer;
    if (buffer->last < p->plan->count - 1)
        buffer->last = p->plan->count - 1;
}

static float *memory_of(const prun_plan *plan, const prun_view *view)
{
    const prun_buffer *buffer = plan->buffers + view->buffer;
    float *start = buffer->constant ? buffer->constant : (float *)(void *)(plan->arena + buffer->offset);
    return start + view->offset;
}

float *prun_plan_memory(const prun_plan *plan, const prun_view *view)
{
    return memory_of(plan, view);
}

/* A tensor of the file as planes, which are filled here and now. */
static int constant(planner *p, const prun_view *from, const float *values, unsigned channels, prun_view *out)
{
    prun_view view = prun_view_of(&from->shape, channels);
    if (add_buffer(p, &view))
        return -1;
    prun_buffer *buffer = p->plan->buffers + view.buffer;
    if (keep(p, buffer->bytes))
        return -1;
    buffer->constant = prun_allocate(buffer->bytes);
    if (!buffer->constant)
        return no_memory(p);
    prun_copy(from, &view, values, buffer->constant);
    *out = view;
    return 0;
}

static prun_view dense(const prun_shape *shape)
{
    return prun_view_of(shape, 0);
}

/* `value` in the wanted layout, as it is or copied. */
static int as(planner *p, int32_t value, unsigned channels, prun_view *out)
{
    if (value < 0) {
        prun_shape shape = prun_shape_of(p->program, p->header, value);
        prun_view from = dense(&shape);
        return constant(p, &from, p->tensors[-value - 1], channels, out);
    }
    *out = p->views[value];
    if (prun_view_is(out, channels))
        return 0;
    prun_step *step = add_step(p, STEP_COPY, &out->shape, channels);
    if (!step)
        return -1;
    give(p, step, out);
    p->views[value] = *out = step->out;
    return 0;
}

/* `value`, repeated into the shape of `like` and lying in memory as it. */
static int broadcast_like(planner *p, int32_t value, const prun_view *like, prun_view *out)
{
    unsigned channels = prun_view_channels(like);
    if (value < 0) {
        prun_shape shape = prun_shape_of(p->program, p->header, value);
        prun_view own = dense(&shape), wide;
        prun_view_broadcast(&own, &like->shape, &wide);
        return constant(p, &wide, p->tensors[-value - 1], channels, out);
    }
    prun_view wide;
    prun_view_broadcast(&p->views[value], &like->shape, &wide);
    if (prun_shape_size(&p->views[value].shape) == prun_shape_size(&like->shape)) {
        wide.planes = p->views[value].planes, wide.pixels = p->views[value].pixels;
        if (prun_view_is(&wide, channels)) {
            *out = wide;
            return 0;
        }
    }
    prun_step *step = add_step(p, STEP_COPY, &like->shape, channels);
    if (!step)
        return -1;
    give(p, step, &wide);
    *out = step->out;
    return 0;
}

/* What a convolution or linear layer takes with it */

static int activation_of(prun_kind kind)
{
    switch (kind) {
    case PRUN_RELU:
        return PK_RELU;
    case PRUN_RELU6:
        return PK_RELU6;
    case PRUN_SILU:
        return PK_SILU;
    case PRUN_GELU:
        return PK_GELU;
    case PRUN_GELU_TANH:
        return PK_GELU_TANH;
    case PRUN_HARDSWISH:
        return PK_HARDSWISH;
    case PRUN_HARDSIGMOID:
        return PK_HARDSIGMOID;
    case PRUN_SIGMOID:
        return PK_SIGMOID;
    case PRUN_TANH:
        return PK_TANH;
    default:
        return -1;
    }
}

/* The one operation that reads `value`, unless a chain has it; else NULL. */
static const prun_operation *only_user(const planner *p, int32_t value)
{
    if (value >= p->program->count || p->users[value] != 1 || p->owner[p->user[value]])
        return NULL;
    return p->program->operations + p->user[value];
}

static void take(planner *p, chain *own, const prun_operation *op, int index)
{
    int taken = (int)(op - p->program->operations);
    p->owner[taken] = index + 1;
    own->result = taken + 1;
}

static int same_shape(const prun_shape *a, const prun_shape *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof(int32_t) * (size_t)a->rank);
}

static void take_sum(planner *p, chain *own, int index)
{
    const prun_operation *op = p->program->operations + index, *next = only_user(p, own->result);
    if (!next || next->kind != PRUN_ADD)
        return;
    int32_t other = next->input[0] == own->result ? next->input[1] : next->input[0];
    prun_shape shape = prun_shape_of(p->program, p->header, other);
    if (other < 0 || !same_shape(&shape, &op->shape))
        return;
    own->sum = next;
    own->residual = other;
    take(p, own, next, index);
}

static void follow(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index, *next;
    chain *own = p->chains + index;
    *own = (chain){NULL, NULL, 0, PK_IDENTITY, index + 1};
    if (op->kind == PRUN_CONV2D || op->kind == PRUN_LINEAR) {
        next = only_user(p, own->result);
        if (next && next->kind == PRUN_BATCH_NORM && next->input[0] == own->result &&
            (op->kind == PRUN_CONV2D || op->shape.rank == 2)) {
            own->norm = next;
            take(p, own, next, index);
        }
        take_sum(p, own, index);
    } else if (op->kind != PRUN_ADD && op->kind != PRUN_MUL) {
        return;
    }
    next = only_user(p, own->result);
    if (next && activation_of(next->kind) >= 0) {
        own->activation = activation_of(next->kind);
        take(p, own, next, index);
    }
}

/* Scale and shift per channel of a batch norm, in double precision until the end. */
static int fold(planner *p, const prun_operation *norm, uint32_t channels, const float *bias, float **scale, float **shift)
{
    *scale = prun_allocate_array(channels, sizeof(float));
    *shift = prun_allocate_array(channels, sizeof(float));
    if (!*scale || !*shift)
        return no_memory(p);
    const float *part[4];
    for (int i = 0; norm && i < 4; i++)
        part[i] = p->tensors[-norm->input[i + 1] - 1];
    for (uint32_t c = 0; c < channels; c++) {
        double factor = norm ? part[0][c] / sqrt((double)part[3][c] + norm->number[0]) : 1, start = bias ? bias[c] : 0;
        (*scale)[c] = (float)factor;
        (*shift)[c] = (float)(norm ? (start - part[2][c]) * factor + part[1][c] : start);
    }
    return 0;
}

/* The connections of a weight by output, dilated, and multiplied by the scale of a folded norm. */
typedef struct {
    uint32_t *first, *position;
    float *value;
    size_t kept;
} connections;

static int gather(planner *p, const float *weight, const prun_tensor *tensor, const double *dilation, const float *scale,
                  connections *found)
{
    uint32_t outputs = tensor->dims[0], inputs = tensor->filter;
    uint32_t height = tensor->rank == 4 ? tensor->dims[2] : 1, width = tensor->rank == 4 ? tensor->dims[3] : 1;
    uint32_t down = dilation ? (uint32_t)dilation[0] : 1, along = dilation ? (uint32_t)dilation[1] : 1;
    uint32_t tall = down * (height - 1) + 1, wide = along * (width - 1) + 1;
    found->kept = 0;
    for (uint32_t i = 0; i < tensor->size; i++)
        found->kept += weight[i] != 0;
    if ((uint64_t)(inputs / (height * width)) * tall * wide > INT32_MAX)
        return prun_fail(p->problem, PRUNNET_DAMAGED, "it cannot be run: a convolution is too large");
    found->first = prun_allocate_array((uint64_t)outputs + 1, sizeof(uint32_t));
    found->position = prun_allocate_array((uint64_t)found->kept + 1, sizeof(uint32_t));
    found->value = prun_allocate_array((uint64_t)found->kept + 1, sizeof(float));
    if (!found->first || !found->position || !found->value)
        return no_memory(p);
    uint32_t count = 0;
    for (uint32_t o = 0; o < outputs; o++) {
        for (uint32_t i = 0; i < inputs; i++) {
            float value = weight[(size_t)o * inputs + i];
            if (value != 0) {
                uint32_t channel = i / (height * width), y = i / width % height, x = i % width;
                found->position[count] = (channel * tall + y * down) * wide + x * along;
                found->value[count++] = value * scale[o];
            }
        }
        found->first[o + 1] = count;
    }
    return 0;
}

static void scratch(planner *p, size_t bytes)
{
    if (bytes > p->plan->scratch_bytes)
        p->plan->scratch_bytes = bytes;
}

static int pack(planner *p, int index, const pk_conv *conv, pk_conv_packed **packed)
{
    const prun_operation *op = p->program->operations + index;
    const prun_tensor *tensor = p->header->tensors + (-op->input[1] - 1);
    const double *dilation = op->kind == PRUN_CONV2D ? op->number + 6 : NULL;
    const float *bias = op->inputs == 3 ? p->tensors[-op->input[2] - 1] : NULL;
    connections found = {NULL, NULL, NULL, 0};
    float *scale = NULL, *shift = NULL;
    int code = fold(p, p->chains[index].norm, tensor->dims[0], bias, &scale, &shift);
    if (!code)
        code = gather(p, p->tensors[-op->input[1] - 1], tensor, dilation, scale, &found);
    if (!code) {
        size_t bytes = pk_conv_plan_bytes(conv, found.kept);
        if (!bytes)
            code = refused(p, index, "is too large");
        else if (keep(p, bytes))
            code = -1;
        else if (!(*packed = prun_allocate(bytes)))
            code = no_memory(p);
        else if (!pk_conv_plan(conv, found.first, found.position, found.value, shift, *packed))
            code = refused(p, index, "is no convolution");
        scratch(p, pk_conv_scratch_bytes(conv, found.kept));
    }
    prun_release(scale);
    prun_release(shift);
    prun_release(found.first);
    prun_release(found.position);
    prun_release(found.value);
    return code;
}

/* A convolution, or a linear layer as one of size 1 over tokens. */
static pk_conv conv_of(const planner *p, int index, const prun_view *in, const prun_view *out)
{
    const prun_operation *op = p->program->operations + index;
    const prun_tensor *tensor = p->header->tensors + (-op->input[1] - 1);
    pk_conv conv = {.images = 1, .in_channels = in->planes, .in_h = 1, .in_w = in->pixels, .out_channels = out->planes,
                    .out_h = 1, .out_w = out->pixels, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1,
                    .groups = 1, .activation = p->chains[index].activation, .method = PK_AUTO, .parts = p->plan->threads};
    const double *n = op->number;
    if (op->kind == PRUN_CONV2D) {
        conv.in_h = in->shape.dims[2], conv.in_w = in->shape.dims[3];
        conv.out_h = op->shape.dims[2], conv.out_w = op->shape.dims[3];
        conv.kernel_h = (int32_t)n[6] * ((int32_t)tensor->dims[2] - 1) + 1;
        conv.kernel_w = (int32_t)n[7] * ((int32_t)tensor->dims[3] - 1) + 1;
        conv.stride_h = (int32_t)n[0], conv.stride_w = (int32_t)n[1];
        conv.pad_top = (int32_t)n[2], conv.pad_left = (int32_t)n[4];
        conv.groups = (int32_t)n[8];
    }
    return conv;
}

/* The depthwise convolution that alone reads the result of a 1 x 1 convolution, if both may run as a pair; else 0. */
static int depthwise_after(const planner *p, int index, const pk_conv *conv)
{
    const prun_operation *next = only_user(p, p->chains[index].result);
    int point = conv->kernel_h == 1 && conv->kernel_w == 1 && conv->in_h == conv->out_h && conv->in_w == conv->out_w;
    if (p->program->operations[index].kind != PRUN_CONV2D || !point || conv->groups != 1 || p->chains[index].sum)
        return 0;
    if (!next || next->kind != PRUN_CONV2D || next->number[8] != conv->out_channels ||
        next->shape.dims[1] != conv->out_channels)
        return 0;
    int after = (int)(next - p->program->operations);
    return p->chains[after].sum ? 0 : after;
}

/* Makes of a convolution a pair with the depthwise one at `index`, where the kernels can: its result is then theirs. */
static int join(planner *p, int index, prun_step *step)
{
    prun_view out = prun_view_of(&p->program->operations[index].shape, CHANNELS_OF_IMAGE);
    pk_conv conv = conv_of(p, index, &step->out, &out);
    if (pack(p, index, &conv, &step->depthwise))
        return -1;
    size_t bytes = pk_pair_scratch_bytes(step->conv, step->depthwise);
    if (!bytes) {
        prun_release(step->depthwise);
        step->depthwise = NULL;
        return 0;
    }
    scratch(p, bytes);
    step->kind = STEP_PAIR;
    out.buffer = step->out.buffer;
    p->plan->buffers[out.buffer].bytes = pk_planes_bytes((size_t)out.planes, (size_t)out.pixels);
    step->out = p->views[p->chains[index].result] = out;
    p->chains[index].result = 0; /* nothing is left to do where it ends */
    return 0;
}

static int plan_conv(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    const chain next = p->chains[index];
    unsigned channels = op->kind == PRUN_CONV2D ? CHANNELS_OF_IMAGE : 1u << (op->shape.rank - 1);
    prun_view in, residual;
    if (as(p, op->input[0], channels, &in) || (next.sum && as(p, next.residual, channels, &residual)))
        return -1;
    prun_step *step = add_step(p, STEP_CONV, &op->shape, channels);
    if (!step)
        return -1;
    give(p, step, &in);
    if (next.sum)
        give(p, step, &residual);
    p->views[next.result] = step->out;
    pk_conv conv = conv_of(p, index, &in, &step->out);
    int after = depthwise_after(p, index, &conv);
    if (after && pk_pair_parts(&conv) > conv.parts)
        conv.parts = pk_pair_parts(&conv);
    if (pack(p, index, &conv, &step->conv))
        return -1;
    return after ? join(p, after, step) : 0;
}

/* Everything else, one operation at a time */

static int simple(planner *p, int index, prun_step_kind kind, unsigned channels, prun_step **step)
{
    const prun_operation *op = p->program->operations + index;
    prun_view in;
    if (as(p, op->input[0], channels, &in) || !(*step = add_step(p, kind, &op->shape, channels)))
        return -1;
    give(p, *step, &in);
    p->views[index + 1] = (*step)->out;
    return 0;
}

/* The layout that a value has, or that of a row of values where it has none to keep. */
static unsigned layout(planner *p, int32_t value)
{
    if (value < 0)
        return 0;
    unsigned channels = prun_view_channels(&p->views[value]);
    return prun_view_is(&p->views[value], channels) ? channels : 0;
}

static int plan_activation(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    prun_step *step;
    int leaky = op->kind == PRUN_LEAKY_RELU;
    if (simple(p, index, leaky ? STEP_LEAKY_RELU : STEP_ACTIVATE, layout(p, op->input[0]), &step))
        return -1;
    step->activation = leaky ? PK_IDENTITY : activation_of(op->kind);
    step->number = leaky ? (float)op->number[0] : 0;
    return 0;
}

/* Whether `small` has one value for each channel of `large`, an image. */
static int is_gate(const prun_shape *large, const prun_shape *small)
{
    return large->rank == 4 && small->rank == 4 && large->dims[0] == 1 && large->dims[1] == small->dims[1] && small->dims[2] == 1 && small->dims[3] == 1;
}

static int plan_pair(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    prun_shape a = prun_shape_of(p->program, p->header, op->input[0]), b = prun_shape_of(p->program, p->header, op->input[1]);
    int swapped = same_shape(&b, &op->shape) && (!same_shape(&a, &op->shape) || op->input[0] < 0);
    int32_t large = op->input[swapped], small = op->input[!swapped];
    prun_view in, other;
    prun_shape small_shape = swapped ? a : b;
    int gate = op->kind == PRUN_MUL && is_gate(&op->shape, &small_shape);
    if (as(p, large, gate ? CHANNELS_OF_IMAGE : layout(p, large), &in))
        return -1;
    if (gate ? as(p, small, CHANNELS_OF_IMAGE, &other) : broadcast_like(p, small, &in, &other))
        return -1;
    prun_step *step = add_step(p, gate ? STEP_GATE : op->kind == PRUN_ADD ? STEP_ADD : STEP_MULTIPLY, &op->shape,
                               prun_view_channels(&in));
    if (!step)
        return -1;
    give(p, step, &in);
    give(p, step, &other);
    step->activation = p->chains[index].activation;
    p->views[p->chains[index].result] = step->out;
    return 0;
}

static int plan_batch_norm(planner *p, int index)
{
    prun_step *step;
    const prun_operation *op = p->program->operations + index;
    if (simple(p, index, STEP_AFFINE, CHANNELS_OF_IMAGE, &step) || keep(p, 2 * (size_t)op->shape.dims[1] * sizeof(float)))
        return -1;
    return fold(p, op, (uint32_t)op->shape.dims[1], NULL, &step->scale, &step->shift);
}

static int plan_layer_norm(planner *p, int index)
{
    prun_step *step;
    const prun_operation *op = p->program->operations + index;
    if (simple(p, index, STEP_LAYER_NORM, 1u << (op->shape.rank - 1), &step))
        return -1;
    size_t bytes = (size_t)op->shape.dims[op->shape.rank - 1] * sizeof(float);
    if (keep(p, 2 * bytes))
        return -1;
    step->scale = prun_allocate(bytes);
    step->shift = prun_allocate(bytes);
    if (!step->scale || !step->shift)
        return no_memory(p);
    memcpy(step->scale, p->tensors[-op->input[1] - 1], bytes);
    memcpy(step->shift, p->tensors[-op->input[2] - 1], bytes);
    step->number = (float)op->number[0];
    return 0;
}

static int plan_pool(planner *p, int index)
{
    prun_step *step;
    const prun_operation *op = p->program->operations + index;
    const double *n = op->number;
    if (simple(p, index, op->kind == PRUN_MAX_POOL2D ? STEP_MAX_POOL : STEP_AVERAGE_POOL, CHANNELS_OF_IMAGE, &step))
        return -1;
    step->pool = (pk_pool){.images = 1, .in_h = step->in[0].shape.dims[2], .in_w = step->in[0].shape.dims[3],
                           .out_h = op->shape.dims[2], .out_w = op->shape.dims[3], .kernel_h = (int32_t)n[0],
                           .kernel_w = (int32_t)n[1], .stride_h = (int32_t)n[2], .stride_w = (int32_t)n[3],
                           .pad_top = (int32_t)n[4], .pad_left = (int32_t)n[5],
                           .count_pad = op->kind == PRUN_AVG_POOL2D ? (int32_t)n[6] : 0};
    return 0;
}

/* The dimensions that go become pixels, and a plane's mean is what is left. */
static int plan_mean(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    unsigned channels = (1u << op->shape.rank) - 1;
    for (int i = 0; i < op->numbers; i++)
        channels &= ~(1u << (int)op->number[i]);
    prun_step *step;
    return simple(p, index, STEP_GLOBAL_AVERAGE, channels, &step);
}

static int plan_attention(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    prun_view in[3];
    for (int i = 0; i < 3; i++)
        if (as(p, op->input[i], HEADS, in + i))
            return -1;
    prun_step *step = add_step(p, STEP_ATTENTION, &op->shape, HEADS);
    if (!step)
        return -1;
    for (int i = 0; i < 3; i++)
        give(p, step, in + i);
    step->number = (float)op->number[0];
    scratch(p, pk_attention_scratch_bytes(op->shape.dims[3], op->shape.dims[2]));
    p->views[index + 1] = step->out;
    return 0;
}

/* Copies of each part into its place of one result. */
static int plan_concat(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    int dim = (int)op->number[0], into = -1;
    unsigned channels = op->shape.rank == 4 ? CHANNELS_OF_IMAGE : 1u << (op->shape.rank - 1);
    prun_view in, whole = prun_view_of(&op->shape, channels);
    int64_t at = 0;
    for (int i = 0; i < op->inputs; i++) {
        if (op->input[i] < 0) {
            if (as(p, op->input[i], 0, &in))
                return -1;
        } else {
            in = p->views[op->input[i]];
        }
        prun_step *step = add_step(p, STEP_COPY, into < 0 ? &op->shape : &(prun_shape){1, {1}}, into < 0 ? channels : 0);
        if (!step)
            return -1;
        give(p, step, &in);
        if (into < 0)
            into = step->out.buffer;
        prun_view part = whole;
        part.shape = in.shape;
        part.buffer = into;
        part.offset = at;
        at += in.shape.dims[dim] * whole.stride[dim];
        step->out = part;
        p->plan->buffers[into].last = p->plan->count - 1;
    }
    whole.buffer = into;
    p->views[index + 1] = whole;
    return 0;
}

static int plan_pad(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    prun_view in;
    if (as(p, op->input[0], CHANNELS_OF_IMAGE, &in))
        return -1;
    prun_step *step = add_step(p, STEP_COPY, &op->shape, CHANNELS_OF_IMAGE);
    if (!step)
        return -1;
    give(p, step, &in);
    p->views[index + 1] = step->out;
    step->out.offset += (int64_t)op->number[0] * step->out.stride[2] + (int64_t)op->number[2];
    step->out.shape = in.shape;
    step->clears = 1;
    return 0;
}

/* Reshape, permute and slice change how memory is read; it is copied only where it cannot be read so. */
static int plan_view(planner *p, int index)
{
    const prun_operation *op = p->program->operations + index;
    prun_view in, *out = p->views + index + 1;
    if (op->input[0] < 0) {
        if (as(p, op->input[0], 0, &in))
            return -1;
    } else {
        in = p->views[op->input[0]];
    }
    if (op->kind == PRUN_PERMUTE) {
        prun_view_permute(&in, op->number, out);
        return 0;
    }
    if (op->kind == PRUN_RESHAPE) {
        if (!prun_view_reshape(&in, &op->shape, out))
            return 0;
        prun_step *step = add_step(p, STEP_COPY, &in.shape, 0);
        if (!step)
            return -1;
        give(p, step, &in);
        *out = step->out;
        return prun_view_reshape(&step->out, &op->shape, out) ? refused(p, index, "cannot be had") : 0;
    }
    prun_view part;
    if (!prun_view_slice(&in, (int)op->number[0], (int32_t)op->number[1], (int32_t)op->number[2], &part)) {
        *out = part;
        return 0;
    }
    unsigned channels = prun_view_channels(&in);
    prun_step *step = add_step(p, STEP_COPY, &part.shape, channels);
    if (!step)
        return -1;
    give(p, step, &part);
    *out = step->out;
    return 0;
}

static int plan_operation(planner *p, int index)
{
    switch (p->program->operations[index].kind) {
    case PRUN_CONV2D:
    case PRUN_LINEAR:
        return plan_conv(p, index);
    case PRUN_BATCH_NORM:
        return plan_batch_norm(p, index);
    case PRUN_LAYER_NORM:
        return plan_layer_norm(p, index);
    case PRUN_ADD:
    case PRUN_MUL:
        return plan_pair(p, index);
    case PRUN_MAX_POOL2D:
    case PRUN_AVG_POOL2D:
        return plan_pool(p, index);
    case PRUN_MEAN:
        return plan_mean(p, index);
    case PRUN_PAD:
        return plan_pad(p, index);
    case PRUN_RESHAPE:
    case PRUN_PERMUTE:
    case PRUN_SLICE:
        return plan_view(p, index);
    case PRUN_CONCAT:
        return plan_concat(p, index);
    case PRUN_ATTENTION:
        return plan_attention(p, index);
    default:
        return plan_activation(p, index);
    }
}

/* Where each buffer lies in the arena: below or above all that are alive with it, as low as there is room. */
static int place(planner *p)
{
    prun_plan *plan = p->plan;
    size_t end = 0;
    for (int i = 0; i < plan->buffers_count; i++) {
        prun_buffer *own = plan->buffers + i;
        if (own->constant)
            continue;
        for (int moved = 1; moved;) {
            moved = 0;
            for (int k = 0; k < i; k++) {
                const prun_buffer *other = plan->buffers + k;
                int together = !other->constant && other->first <= own->last && own->first <= other->last;
                if (together && own->offset < other->offset + other->bytes && other->offset < own->offset + own->bytes) {
                    own->offset = other->offset + other->bytes;
                    moved = 1;
                }
            }
        }
        if (own->offset + own->bytes > end)
            end = own->offset + own->bytes;
        if (end > LARGEST_ARENA)
            return too_much(p);
    }
    plan->scratch_bytes = (plan->scratch_bytes + PK_ALIGN - 1) / PK_ALIGN * PK_ALIGN;
    if (plan->scratch_bytes > LARGEST_ARENA / (size_t)plan->threads)
        return too_much(p);
    plan->scratch_offset = end;
    plan->arena_bytes = end + plan->scratch_bytes * (size_t)plan->threads;
    plan->arena = prun_allocate(plan->arena_bytes);
    return plan->arena ? 0 : no_memory(p);
}

static int count_users(planner *p)
{
    int values = p->program->count + 1;
    p->views = prun_allocate_array((uint64_t)values, sizeof *p->views);
    p->users = prun_allocate_array((uint64_t)values, sizeof *p->users);
    p->user = prun_allocate_array((uint64_t)values, sizeof *p->user);
    p->owner = prun_allocate_array((uint64_t)values, sizeof *p->owner);
    p->chains = prun_allocate_array((uint64_t)values, sizeof *p->chains);
    if (!p->views || !p->users || !p->user || !p->owner || !p->chains)
        return no_memory(p);
    for (int i = 0; i < p->program->count; i++)
        for (int k = 0; k < p->program->operations[i].inputs; k++) {
            int32_t value = p->program->operations[i].input[k];
            if (value >= 0) {
                p->users[value]++;
                p->user[value] = i;
            }
        }
    p->users[values - 1]++; /* the embedding is read by whoever asked for it */
    return 0;
}

static int make(planner *p)
{
    prun_plan *plan = p->plan;
    if (count_users(p))
        return -1;
    plan->image = prun_view_of(&p->program->image, CHANNELS_OF_IMAGE);
    if (add_buffer(p, &plan->image))
        return -1;
    p->views[0] = plan->image;
    for (int i = 0; i < p->program->count; i++)
        if (!p->owner[i])
            follow(p, i);
    for (int i = 0; i < p->program->count; i++) { /* a chain is done where it ends, when its residual is there */
        int start = p->owner[i] ? p->owner[i] - 1 : i;
        if (p->chains[start].result == i + 1 && plan_operation(p, start))
            return -1;
    }
    plan->embedding = p->views[p->program->count];
    plan->buffers[plan->embedding.buffer].last = plan->count;
    return place(p);
}

int prun_plan_make(prun_plan *plan, const prun_header *header, const prun_program *program, float **tensors, int threads,
                   prun_problem *problem)
{
    planner p = {.plan = plan, .header = header, .program = program, .tensors = tensors, .problem = problem};
    p.allowed = LARGEST_ARENA;
    for (int i = 0; i < header->layers + header->statistics + header->rest; i++)
        p.allowed += COPIES * (uint64_t)header->tensors[i].size * sizeof(float);
    plan->threads = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    problem->code = 0;
    int failed = make(&p);
    if (!failed)
        plan->pool = prun_pool_start(plan->threads);
    prun_release(p.views);
    prun_release(p.users);
    prun_release(p.user);
    prun_release(p.owner);
    prun_release(p.chains);
    return failed ? problem->code : 0;
}

void prun_plan_free(prun_plan *plan)
{
    prun_pool_stop(plan->pool);
    for (int i = 0; i < plan->count; i++) {
        prun_release(plan->steps[i].conv);
        prun_release(plan->steps[i].depthwise);
        prun_release(plan->steps[i].scale);
        prun_release(plan->steps[i].shift);
    }
    for (int i = 0; i < plan->buffers_count; i++)
        prun_release(plan->buffers[i].constant);
    prun_release(plan->steps);
    prun_release(plan->buffers);
    prun_release(plan->arena);
    memset(plan, 0, sizeof *plan);
}
