#include "views.h"

static int64_t pitch_of(const prun_view *view)
{
    return (int64_t)pk_pitch((size_t)view->pixels);
}

prun_view prun_view_of(const prun_shape *shape, unsigned channels)
{
    prun_view view = {.shape = *shape, .planes = 1, .pixels = 1};
    for (int i = 0; i < shape->rank; i++)
        if (channels >> i & 1)
            view.planes *= shape->dims[i];
        else
            view.pixels *= shape->dims[i];
    int64_t plane = pitch_of(&view), pixel = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        int64_t *next = channels >> i & 1 ? &plane : &pixel;
        view.stride[i] = *next;
        *next *= shape->dims[i];
    }
    return view;
}

int prun_view_is(const prun_view *view, unsigned channels)
{
    prun_view wanted = prun_view_of(&view->shape, channels);
    if (wanted.planes != view->planes || wanted.pixels != view->pixels)
        return 0;
    for (int i = 0; i < view->shape.rank; i++)
        if (view->shape.dims[i] > 1 && view->stride[i] != wanted.stride[i])
            return 0;
    return 1;
}

unsigned prun_view_channels(const prun_view *view)
{
    unsigned channels = 0;
    for (int i = 0; i < view->shape.rank; i++)
        if (view->shape.dims[i] > 1 && view->stride[i] >= pitch_of(view))
            channels |= 1u << i;
    return channels;
}

int prun_view_reshape(const prun_view *view, const prun_shape *shape, prun_view *out)
{
    prun_view found = *view;
    found.shape = *shape;
    int from = 0, to = 0;
    while (to < shape->rank) {
        /* the fewest dimensions of both that hold equally many values */
        int64_t before = from < view->shape.rank ? view->shape.dims[from] : 1, after = shape->dims[to];
        int from_end = from + 1, to_end = to + 1;
        while (before != after)
            if (before < after)
                before *= view->shape.dims[from_end++];
            else
                after *= shape->dims[to_end++];
        int64_t inner = 0, size = 1; /* those before must be one run with one stride */
        for (int i = (from_end < view->shape.rank ? from_end : view->shape.rank) - 1; i >= from; i--) {
            if (view->shape.dims[i] == 1)
                continue;
            if (size > 1 && view->stride[i] != inner * size)
                return -1;
            inner = size > 1 ? inner : view->stride[i];
            size *= view->shape.dims[i];
        }
        int64_t stride = inner;
        for (int i = to_end - 1; i >= to; i--) {
            found.stride[i] = stride;
            stride *= shape->dims[i];
        }
        from = from_end;
        to = to_end;
    }
    *out = found;
    return 0;
}

void prun_view_permute(const prun_view *view, const double *dims, prun_view *out)
{
    prun_view found = *view;
    for (int i = 0; i < view->shape.rank; i++) {
        found.shape.dims[i] = view->shape.dims[(int)dims[i]];
        found.stride[i] = view->stride[(int)dims[i]];
    }
    *out = found;
}

int prun_view_slice(const prun_view *view, int dim, int32_t start, int32_t length, prun_view *out)
{
    prun_view found = *view;
    int32_t whole = view->shape.dims[dim];
    found.shape.dims[dim] = length;
    found.offset += start * view->stride[dim];
    *out = found;
    if (length == whole)
        return 0;
    if (view->stride[dim] < pitch_of(view) || view->stride[dim] * whole != view->planes * pitch_of(view))
        return -1; /* it no longer fills its planes */
    out->planes = view->planes / whole * length;
    return 0;
}

void prun_view_broadcast(const prun_view *view, const prun_shape *shape, prun_view *out)
{
    prun_view found = *view;
    int missing = shape->rank - view->shape.rank;
    found.shape = *shape;
    for (int i = 0; i < shape->rank; i++) {
        int own = i - missing;
        found.stride[i] = own < 0 || view->shape.dims[own] == 1 ? 0 : view->stride[own];
    }
    *out = found;
}

void prun_copy(const prun_view *from, const prun_view *to, const float *in, float *out)
{
    int order[PRUN_DIMENSIONS], rank = to->shape.rank; /* the shortest stride of the result innermost */
    int32_t at[PRUN_DIMENSIONS] = {0};
    for (int i = 0; i < rank; i++) {
        int place = i;
        for (; place > 0 && to->stride[order[place - 1]] < to->stride[i]; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
    int inner = order[rank - 1];
    int64_t in_step = from->stride[inner], out_step = to->stride[inner], in_at = 0, out_at = 0;
    for (;;) {
        for (int32_t i = 0; i < to->shape.dims[inner]; i++)
            out[out_at + i * out_step] = in[in_at + i * in_step];
        int level = rank - 2;
        for (; level >= 0; level--) {
            int dim = order[level];
            in_at += from->stride[dim];
            out_at += to->stride[dim];
            if (++at[dim] < to->shape.dims[dim])
                break;
            in_at -= from->stride[dim] * at[dim];
            out_at -= to->stride[dim] * at[dim];
            at[dim] = 0;
        }
        if (level < 0)
            return;
    }
}
