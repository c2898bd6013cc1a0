#include "plan.h"
#include "views.h"

static void convolve(const prun_plan *plan, const prun_step *step, const float *in, float *out)
{
    const float *residual = step->inputs > 1 ? prun_plan_memory(plan, step->in + 1) : NULL;
    pk_conv_run(step->conv, in, residual, out, plan->arena + plan->scratch_offset, 0, pk_conv_units(step->conv));
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

static void attend(const prun_plan *plan, const prun_step *step, const float *in, float *out)
{
    const int32_t *dims = step->out.shape.dims;
    pk_attention(1, dims[2], dims[3], step->number, in, prun_plan_memory(plan, step->in + 1),
                 prun_plan_memory(plan, step->in + 2), out, plan->arena + plan->scratch_offset, 0, dims[1]);
}

void prun_plan_run(const prun_plan *plan)
{
    for (int i = 0; i < plan->count; i++) {
        const prun_step *step = plan->steps + i;
        const float *in = prun_plan_memory(plan, step->in);
        const float *other = step->inputs > 1 ? prun_plan_memory(plan, step->in + 1) : NULL;
        float *out = prun_plan_memory(plan, &step->out);
        int32_t pixels = step->in->pixels, planes = step->out.planes;
        switch (step->kind) {
        case STEP_CONV:
            convolve(plan, step, in, out);
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
            attend(plan, step, in, out);
            break;
        case STEP_COPY:
            copy(plan, step, in, out);
            break;
        }
    }
}
