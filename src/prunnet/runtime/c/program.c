#include "program.h"

#include "prunnet.h"

enum { MOST_OPERATIONS = 1 << 14, LARGEST_NUMBER = 1 << 10 };
#define LARGEST_VALUE ((int64_t)1 << 26)
#define MOST_WORK ((double)((int64_t)1 << 40))

typedef struct {
    const char *name;
    int least_inputs, most_inputs, least_numbers, most_numbers;
} form;

static const form forms[] = {
    [PRUN_CONV2D] = {"conv2d", 2, 3, 9, 9},       [PRUN_BATCH_NORM] = {"batch_norm", 5, 5, 1, 1},
    [PRUN_LINEAR] = {"linear", 2, 3, 0, 0},       [PRUN_LAYER_NORM] = {"layer_norm", 3, 3, 1, 1},
    [PRUN_RELU] = {"relu", 1, 1, 0, 0},           [PRUN_RELU6] = {"relu6", 1, 1, 0, 0},
    [PRUN_LEAKY_RELU] = {"leaky_relu", 1, 1, 1, 1}, [PRUN_SILU] = {"silu", 1, 1, 0, 0},
    [PRUN_GELU] = {"gelu", 1, 1, 0, 0},           [PRUN_GELU_TANH] = {"gelu_tanh", 1, 1, 0, 0},
    [PRUN_HARDSWISH] = {"hardswish", 1, 1, 0, 0}, [PRUN_HARDSIGMOID] = {"hardsigmoid", 1, 1, 0, 0},
    [PRUN_SIGMOID] = {"sigmoid", 1, 1, 0, 0},     [PRUN_TANH] = {"tanh", 1, 1, 0, 0},
    [PRUN_ADD] = {"add", 2, 2, 0, 0},             [PRUN_MUL] = {"mul", 2, 2, 0, 0},
    [PRUN_MAX_POOL2D] = {"max_pool2d", 1, 1, 6, 6}, [PRUN_AVG_POOL2D] = {"avg_pool2d", 1, 1, 7, 7},
    [PRUN_MEAN] = {"mean", 1, 1, 1, 6},           [PRUN_PAD] = {"pad", 1, 1, 4, 4},
    [PRUN_RESHAPE] = {"reshape", 1, 1, 1, 6},     [PRUN_PERMUTE] = {"permute", 1, 1, 1, 6},
    [PRUN_SLICE] = {"slice", 1, 1, 3, 3},         [PRUN_CONCAT] = {"concat", 1, PRUN_INPUTS, 1, 1},
    [PRUN_ATTENTION] = {"attention", 3, 3, 1, 1}};
enum { FORMS = sizeof forms / sizeof *forms };

int64_t prun_shape_size(const prun_shape *shape)
{
    int64_t size = 1;
    for (int i = 0; i < shape->rank; i++) {
        size *= shape->dims[i];
        if (size > INT32_MAX)
            return INT64_MAX;
    }
    return size;
}

prun_shape prun_shape_of(const prun_program *program, const prun_header *header, int32_t value)
{
    if (value > 0)
        return program->operations[value - 1].shape;
    if (value == 0)
        return program->image;
    const prun_tensor *tensor = header->tensors + (-value - 1);
    prun_shape shape = {tensor->rank, {0}};
    for (int i = 0; i < tensor->rank && i < PRUN_DIMENSIONS; i++)
        shape.dims[i] = (int32_t)tensor->dims[i];
    return shape;
}

/* Whether numbers `from` and on are `count` whole ones, each from `least` to `most`. */
static int whole(const prun_operation *op, int from, int count, int64_t least, int64_t most)
{
    for (int i = from; i < from + count; i++) {
        double number = op->number[i];
        if (!(number >= (double)least && number <= (double)most) || number != (double)(int64_t)number)
            return 0;
    }
    return 1;
}

static int vector_of(const prun_shape *shape, int32_t value, int32_t size)
{
    return value < 0 && shape->rank == 1 && shape->dims[0] == size;
}

static int64_t sides(int64_t side, int64_t padding, int64_t kernel, int64_t stride)
{
    int64_t left = side + padding - kernel;
    return left < 0 ? 0 : left / stride + 1;
}

static int conv2d(prun_operation *op, const prun_shape *in, double *work)
{
    const double *n = op->number;
    const prun_shape *x = in, *weight = in + 1;
    if (x->rank != 4 || x->dims[0] != 1 || weight->rank != 4 || op->input[1] >= 0)
        return -1;
    if (!whole(op, 0, 2, 1, LARGEST_NUMBER) || !whole(op, 2, 4, 0, LARGEST_NUMBER) ||
        !whole(op, 6, 2, 1, LARGEST_NUMBER) || !whole(op, 8, 1, 1, INT32_MAX))
        return -1;
    int64_t groups = (int64_t)n[8], out = weight->dims[0], channels = x->dims[1];
    int64_t kernel_h = (int64_t)n[6] * (weight->dims[2] - 1) + 1, kernel_w = (int64_t)n[7] * (weight->dims[3] - 1) + 1;
    if (channels % groups || out % groups || weight->dims[1] != channels / groups || kernel_h > LARGEST_NUMBER ||
        kernel_w > LARGEST_NUMBER)
        return -1;
    if (op->inputs == 3 && !vector_of(in + 2, op->input[2], weight->dims[0]))
        return -1;
    int64_t height = sides(x->dims[2], (int64_t)(n[2] + n[3]), kernel_h, (int64_t)n[0]);
    int64_t width = sides(x->dims[3], (int64_t)(n[4] + n[5]), kernel_w, (int64_t)n[1]);
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
        return -1;
    op->shape = (prun_shape){4, {1, (int32_t)out, (int32_t)height, (int32_t)width}};
    *work += (double)prun_shape_size(weight) * (double)height * (double)width;
    return 0;
}

static int pool(prun_operation *op, const prun_shape *in, double *work)
{
    const double *n = op->number;
    if (in->rank != 4 || in->dims[0] != 1 || !whole(op, 0, 4, 1, LARGEST_NUMBER) || !whole(op, 4, 2, 0, LARGEST_NUMBER))
        return -1;
    if (2 * n[4] > n[0] || 2 * n[5] > n[1] || (op->kind == PRUN_AVG_POOL2D && !whole(op, 6, 1, 0, 1)))
        return -1;
    int64_t height = sides(in->dims[2], 2 * (int64_t)n[4], (int64_t)n[0], (int64_t)n[2]);
    int64_t width = sides(in->dims[3], 2 * (int64_t)n[5], (int64_t)n[1], (int64_t)n[3]);
    if (height < 1 || width < 1)
        return -1;
    op->shape = (prun_shape){4, {1, in->dims[1], (int32_t)height, (int32_t)width}};
    *work += (double)prun_shape_size(&op->shape) * n[0] * n[1];
    return 0;
}

static int batch_norm(prun_operation *op, const prun_shape *in)
{
    if (in->rank < 2 || in->dims[0] != 1 || !(op->number[0] >= 0))
        return -1;
    for (int i = 1; i < 5; i++)
        if (!vector_of(in + i, op->input[i], in->dims[1]))
            return -1;
    op->shape = *in;
    return 0;
}

static int linear(prun_operation *op, const prun_shape *in, double *work)
{
    if (in->rank < 1 || in[1].rank != 2 || op->input[1] >= 0 || in->dims[in->rank - 1] != in[1].dims[1])
        return -1;
    if (op->inputs == 3 && !vector_of(in + 2, op->input[2], in[1].dims[0]))
        return -1;
    *work += (double)prun_shape_size(in) * in[1].dims[0];
    op->shape = *in;
    op->shape.dims[in->rank - 1] = in[1].dims[0];
    return 0;
}

static int layer_norm(prun_operation *op, const prun_shape *in)
{
    if (in->rank < 1 || !(op->number[0] >= 0))
        return -1;
    for (int i = 1; i < 3; i++)
        if (!vector_of(in + i, op->input[i], in->dims[in->rank - 1]))
            return -1;
    op->shape = *in;
    return 0;
}

/* One of the two has the shape of the result; the other may have ones, or fewer dimensions. */
static int pairwise(prun_operation *op, const prun_shape *in)
{
    for (int order = 0; order < 2; order++) {
        const prun_shape *large = in + order, *small = in + !order;
        int missing = large->rank - small->rank, fits = missing >= 0;
        for (int i = 0; fits && i < small->rank; i++)
            fits = small->dims[i] == 1 || small->dims[i] == large->dims[i + missing];
        if (fits) {
            op->shape = *large;
            return 0;
        }
    }
    return -1;
}

static int mean(prun_operation *op, const prun_shape *in)
{
    int seen = 0;
    op->shape = *in;
    for (int i = 0; i < op->numbers; i++) {
        if (!whole(op, i, 1, 0, in->rank - 1) || seen >> (int)op->number[i] & 1)
            return -1;
        seen |= 1 << (int)op->number[i];
        op->shape.dims[(int)op->number[i]] = 1;
    }
    return 0;
}

static int pad(prun_operation *op, const prun_shape *in)
{
    if (in->rank != 4 || !whole(op, 0, 4, 0, LARGEST_NUMBER) || in->dims[2] > INT32_MAX / 2 || in->dims[3] > INT32_MAX / 2)
        return -1;
    op->shape = *in;
    op->shape.dims[2] += (int32_t)(op->number[0] + op->number[1]);
    op->shape.dims[3] += (int32_t)(op->number[2] + op->number[3]);
    return 0;
}

static int reshape(prun_operation *op, const prun_shape *in)
{
    if (!whole(op, 0, op->numbers, 1, INT32_MAX))
        return -1;
    op->shape.rank = op->numbers;
    for (int i = 0; i < op->numbers; i++)
        op->shape.dims[i] = (int32_t)op->number[i];
    return prun_shape_size(&op->shape) == prun_shape_size(in) ? 0 : -1;
}

static int permute(prun_operation *op, const prun_shape *in)
{
    int seen = 0;
    if (op->numbers != in->rank || !whole(op, 0, op->numbers, 0, in->rank - 1))
        return -1;
    op->shape.rank = in->rank;
    for (int i = 0; i < op->numbers; i++) {
        seen |= 1 << (int)op->number[i];
        op->shape.dims[i] = in->dims[(int)op->number[i]];
    }
    return seen == (1 << in->rank) - 1 ? 0 : -1;
}

static int slice(prun_operation *op, const prun_shape *in)
{
    if (!whole(op, 0, 1, 0, in->rank - 1) || !whole(op, 1, 1, 0, INT32_MAX) || !whole(op, 2, 1, 1, INT32_MAX) ||
        op->number[1] + op->number[2] > in->dims[(int)op->number[0]])
        return -1;
    op->shape = *in;
    op->shape.dims[(int)op->number[0]] = (int32_t)op->number[2];
    return 0;
}

static int concat(prun_operation *op, const prun_shape *in)
{
    if (!whole(op, 0, 1, 0, in->rank - 1))
        return -1;
    int dim = (int)op->number[0];
    int64_t total = 0;
    op->shape = *in;
    for (int i = 0; i < op->inputs; i++) {
        if (in[i].rank != in->rank)
            return -1;
        for (int d = 0; d < in->rank; d++)
            if (d != dim && in[i].dims[d] != in->dims[d])
                return -1;
        total += in[i].dims[dim];
    }
    if (total > INT32_MAX)
        return -1;
    op->shape.dims[dim] = (int32_t)total;
    return 0;
}

static int attention(prun_operation *op, const prun_shape *in, double *work)
{
    if (in->rank != 4 || in->dims[0] != 1 || !(op->number[0] >= -1e6 && op->number[0] <= 1e6))
        return -1;
    for (int i = 1; i < 3; i++)
        if (in[i].rank != 4 || memcmp(in[i].dims, in->dims, 4 * sizeof *in->dims))
            return -1;
    op->shape = *in;
    *work += 2.0 * (double)prun_shape_size(in) * in->dims[2];
    return 0;
}

static int infer(prun_operation *op, const prun_shape *in, double *work)
{
    switch (op->kind) {
    case PRUN_CONV2D:
        return conv2d(op, in, work);
    case PRUN_BATCH_NORM:
        return batch_norm(op, in);
    case PRUN_LINEAR:
        return linear(op, in, work);
    case PRUN_LAYER_NORM:
        return layer_norm(op, in);
    case PRUN_ADD:
    case PRUN_MUL:
        return pairwise(op, in);
    case PRUN_MAX_POOL2D:
    case PRUN_AVG_POOL2D:
        return pool(op, in, work);
    case PRUN_MEAN:
        return mean(op, in);
    case PRUN_PAD:
        return pad(op, in);
    case PRUN_RESHAPE:
        return reshape(op, in);
    case PRUN_PERMUTE:
        return permute(op, in);
    case PRUN_SLICE:
        return slice(op, in);
    case PRUN_CONCAT:
        return concat(op, in);
    case PRUN_ATTENTION:
        return attention(op, in, work);
    default:
        op->shape = *in;
        return 0;
    }
}

static int wrong(prun_problem *problem, int index, const char *what)
{
    return prun_fail(problem, PRUNNET_DAMAGED, "it is no valid .prun file: operation %d of its program %s", (int64_t)index,
                     what);
}

static int is_list(const json_node *node)
{
    return node && node->type == JSON_ARRAY;
}

/* Name, inputs and numbers of operation `index`; the rooms have space for all that the text can name. */
static int parse(prun_operation *op, const json_node *node, int index, int tensors, int32_t **inputs, double **numbers,
                 prun_problem *problem)
{
    if (!is_list(node) || node->count != 3 || node->first->type != JSON_STRING)
        return wrong(problem, index, "is none");
    const json_node *name = node->first, *in = name->next, *told = in->next;
    int kind = 0;
    while (kind < FORMS && !json_is_text(name, forms[kind].name))
        kind++;
    if (kind == FORMS)
        return wrong(problem, index, "is not known to this version");
    op->kind = (prun_kind)kind;
    if (!is_list(in) || in->count < (uint32_t)forms[kind].least_inputs || in->count > (uint32_t)forms[kind].most_inputs)
        return wrong(problem, index, "has another number of inputs than it takes");
    if (!is_list(told) || told->count < (uint32_t)forms[kind].least_numbers || told->count > (uint32_t)forms[kind].most_numbers)
        return wrong(problem, index, "has another number of numbers than it takes");
    op->input = *inputs;
    op->number = *numbers;
    op->inputs = (int)in->count;
    op->numbers = (int)told->count;
    for (const json_node *item = in->first; item; item = item->next) {
        if (item->type != JSON_NUMBER || !item->whole || item->number < -tensors || item->number > index)
            return wrong(problem, index, "has an input that is not there");
        *(*inputs)++ = (int32_t)item->number;
    }
    for (const json_node *item = told->first; item; item = item->next) {
        if (item->type != JSON_NUMBER)
            return wrong(problem, index, "has a number that is none");
        *(*numbers)++ = item->number;
    }
    return 0;
}

static int read_operation(prun_program *program, const prun_header *header, int index, double *work, prun_problem *problem)
{
    prun_operation *op = program->operations + index;
    prun_shape in[PRUN_INPUTS];
    for (int i = 0; i < op->inputs; i++) {
        in[i] = prun_shape_of(program, header, op->input[i]);
        if (in[i].rank < 1 || in[i].rank > PRUN_DIMENSIONS)
            return wrong(problem, index, "has an input of too many dimensions");
    }
    if (infer(op, in, work))
        return wrong(problem, index, "does not take what it is given");
    if (prun_shape_size(&op->shape) > LARGEST_VALUE)
        return wrong(problem, index, "gives too large a result");
    return *work <= MOST_WORK ? 0 : wrong(problem, index, "takes too long");
}

int prun_program_read(prun_program *program, const prun_header *header, prun_problem *problem)
{
    const json_node *list = header->program;
    if (!is_list(list) || list->count < 1 || list->count > MOST_OPERATIONS)
        return prun_fail(problem, PRUNNET_DAMAGED, "it is no valid .prun file: its program is none");
    program->operations = prun_allocate_array(list->count, sizeof(prun_operation));
    program->input_room = prun_allocate(list->count * PRUN_INPUTS * sizeof(int32_t));
    program->number_room = prun_allocate(list->count * PRUN_NUMBERS * sizeof(double));
    if (!program->operations || !program->input_room || !program->number_room)
        return prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for its program");
    const int *side = header->preprocessing.input_size;
    program->image = (prun_shape){4, {1, side[0], side[1], side[2]}};
    if (prun_shape_size(&program->image) > LARGEST_VALUE)
        return prun_fail(problem, PRUNNET_DAMAGED, "it is no valid .prun file: its images are too large");
    int32_t *inputs = program->input_room;
    double *numbers = program->number_room, work = 0;
    int tensors = header->layers + header->statistics + header->rest;
    for (const json_node *node = list->first; node; node = node->next, program->count++) {
        int index = program->count;
        int code = parse(program->operations + index, node, index, tensors, &inputs, &numbers, problem);
        if (!code)
            code = read_operation(program, header, index, &work, problem);
        if (code)
            return code;
    }
    const prun_shape *last = &program->operations[program->count - 1].shape;
    if (last->rank != 2 || last->dims[0] != 1 || last->dims[1] != header->embedding_dim)
        return prun_fail(problem, PRUNNET_DAMAGED, "it is no valid .prun file: its program does not end with an embedding");
    return 0;
}

void prun_program_free(prun_program *program)
{
    prun_release(program->operations);
    prun_release(program->input_room);
    prun_release(program->number_room);
}
