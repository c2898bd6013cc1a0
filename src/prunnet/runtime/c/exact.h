/* Quotients of whole numbers as the nearest double, on every machine alike. */
#ifndef PRUN_EXACT_H
#define PRUN_EXACT_H

#include "platform.h"

enum { PRUN_LIMBS = 12 }; /* of 32 bits */

typedef struct {
    uint32_t limb[PRUN_LIMBS]; /* lowest first */
} prun_big;

prun_big prun_big_from(uint64_t value);
int prun_big_times(prun_big *number, uint32_t factor); /* 0, or -1 if it no longer fits */
double prun_quotient(prun_big over, prun_big under);   /* rounded once, halves to even; under is not 0 */
double prun_round_even(double value);

#endif
