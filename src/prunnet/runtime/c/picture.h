/* From a picture to what a network takes, as prunnet.Preprocessing does it with Pillow: shorter side resized with an
   antialiasing filter in 8 bits, centre cropped, normalised. */
#ifndef PRUN_PICTURE_H
#define PRUN_PICTURE_H

#include "header.h"

typedef struct {
    int32_t *sums;    /* of the cropped picture, per pixel and channel */
    uint8_t *row;     /* of the picture, in the channels of the network */
    uint8_t *resized; /* the same row, as wide as the crop */
    int32_t *weights; /* of one direction after the other */
    int32_t *first, *count;
    uint64_t row_room, weights_room, sums_room, first_room;
} prun_picture_room;

int prun_picture_prepare(prun_picture_room *room, const prun_preprocessing *told, prun_problem *problem);
void prun_picture_free(prun_picture_room *room);

/* image: planes of pitch floats. */
int prun_picture_read(prun_picture_room *room, const prun_preprocessing *told, const uint8_t *pixels, int width,
                      int height, int channels, float *image, size_t pitch, prun_problem *problem);

#endif
