/* Every tensor of the subnetwork that ends with a band, from the sections of the file. */
#ifndef PRUN_SECTIONS_H
#define PRUN_SECTIONS_H

#include "header.h"

/* values[i] becomes the memory of tensor i of the header, or stays NULL on failure; `file` holds the sections. */
int prun_decode_tensors(const prun_header *header, const uint8_t *file, int band, float **values, prun_problem *problem);

#endif
