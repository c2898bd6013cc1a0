/* Dimensions, strides and planes of values. */
#ifndef PRUN_VIEWS_H
#define PRUN_VIEWS_H

#include "plan.h"

/* A view that fills a buffer of its own: the dimensions in `channels` (a bit each) number planes, the others pixels. */
prun_view prun_view_of(const prun_shape *shape, unsigned channels);
int prun_view_is(const prun_view *view, unsigned channels); /* whether it lies in memory just so */
unsigned prun_view_channels(const prun_view *view);         /* the dimensions whose strides are whole planes */

/* 0, or -1 where the dimensions cannot be had without copying. */
int prun_view_reshape(const prun_view *view, const prun_shape *shape, prun_view *out);
void prun_view_permute(const prun_view *view, const double *dims, prun_view *out);
int prun_view_slice(const prun_view *view, int dim, int32_t start, int32_t length, prun_view *out);
/* As `shape`, of which it is a part or into which it is repeated: strides 0 along repeated dimensions. */
void prun_view_broadcast(const prun_view *view, const prun_shape *shape, prun_view *out);

void prun_copy(const prun_view *from, const prun_view *to, const float *in, float *out); /* to->shape values */

#endif
