#include "plan.h"
#include "views.h"

/* A step as its threads see it. */
typedef struct {
    const prun_plan *plan;
    const prun_step *step;
    const float *in, *second, *third;
    float *out;
} running;

static void *scratch(const prun_plan *plan, int thread)
{
    return plan->arena + plan->scratch_offset + (size_t)thread * plan->scratch_bytes;
}

static void convolve(void *told, int32_t begin, int32_t end, int thread)
{
    const running *r = told;
    pk_conv_run(r->step->conv, r->in, r->second, r->out, scratch(r->plan, thread), begin, end);
}

static void convolve_pair(void *told, int32_t begin, int32_t end, int thread)
{
    const running *r = told;
    pk_pair_run(r->step->conv, r->step->depthwise, r->in, r->out, scratch(r->plan, thread), begin, end);
}

static void attend(void *told, int32_t begin, int32_t end, int thread)
{
    const running *r = told;
    const int32_t *dims = r->step->out.shape.dims;
    pk_attention(1, dims[2], dims[3], r->step->number, r->in, r->second, r->third, r->out, scratch(r->plan, thread), begin,
                 end);
}

static void leaky_relu(const prun_step *step, const float *in, float *out)
{
    size_t count = (size_t)step->out.planes * pk_pitch((size_t)step->out.pixels);
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] < 0 ? in[i] * step->number : in[i];
}

static void copy(const prun_plan *plan, const prun_step *step, const float *in, float *out)
{
    if (step->clears) {
        const prun_buffer *buffer = plan->buffers + step->out.buffer;
        memset(plan->arena + buffer->offset, 0, buffer->bytes);
    }
    prun_copy(step->in, &step->out, in, out);
}

void prun_plan_run(const prun_plan *plan)
{
    for (int i = 0; i < plan->count; i++) {
        const prun_step *step = plan->steps + i;
        const float *in = prun_plan_memory(plan, step->in);
        const float *other = step->inputs > 1 ? prun_plan_memory(plan, step->in + 1) : NULL;
        const float *third = step->inputs > 2 ? prun_plan_memory(plan, step->in + 2) : NULL;
        float *out = prun_plan_memory(plan, &step->out);
        running told = {plan, step, in, other, third, out};
        int32_t pixels = step->in->pixels, planes = step->out.planes;
        switch (step->kind) {
        case STEP_CONV:
            prun_pool_run(plan->pool, pk_conv_units(step->conv), convolve, &told);
            break;
        case STEP_PAIR:
            prun_pool_run(plan->pool, pk_conv_parts(step->conv), convolve_pair, &told);
            break;
        case STEP_MAX_POOL:
            pk_max_pool(&step->pool, in, out, 0, planes);
            break;
        case STEP_AVERAGE_POOL:
            pk_average_pool(&step->pool, in, out, 0, planes);
            break;
        case STEP_GLOBAL_AVERAGE:
            pk_global_average(1, pixels, in, out, 0, planes);
            break;
        case STEP_ACTIVATE:
            pk_activate(pixels, step->activation, in, out, 0, planes);
            break;
        case STEP_LEAKY_RELU:
            leaky_relu(step, in, out);
            break;
        case STEP_ADD:
            pk_add(pixels, step->activation, in, other, out, 0, planes);
            break;
        case STEP_MULTIPLY:
            pk_multiply(pixels, in, other, out, 0, planes);
            if (step->activation != PK_IDENTITY)
                pk_activate(pixels, step->activation, out, out, 0, planes);
            break;
        case STEP_GATE:
            pk_gate(1, pixels, step->activation, in, other, out, 0, planes);
            break;
        case STEP_AFFINE:
            pk_affine(pixels, step->scale, step->shift, in, out, 0, planes);
            break;
        case STEP_LAYER_NORM:
            pk_layer_norm(planes, pixels, step->scale, step->shift, step->number, in, out, 0, pixels);
            break;
        case STEP_ATTENTION:
            prun_pool_run(plan->pool, step->out.shape.dims[1], attend, &told);
            break;
        case STEP_COPY:
            copy(plan, step, in, out);
            break;
        }
    }
}
