/* The range coder of a .prun file: bytes from 32-bit words, by the weights of the 256 symbols. */
#ifndef PRUN_CODING_H
#define PRUN_CODING_H

#include "platform.h"

enum { PRUN_TABLE = 32 };

typedef struct {
    const uint8_t *words, *end; /* little-endian; zeros where they are missing */
    uint64_t low, range, point;
} prun_decoder;

typedef struct {
    uint32_t bound[257];   /* symbol s covers [bound[s], bound[s + 1]) of 2^24 */
    uint8_t first[1 << 8]; /* the symbol that covers the beginning of each 256th */
} prun_model_of_symbols;

void prun_decoder_start(prun_decoder *decoder, const uint8_t *words, size_t bytes);
/* The next symbols; 0, or -1 where the words are not valid. */
int prun_decode(prun_decoder *decoder, const prun_model_of_symbols *model, uint8_t *symbols, size_t count);

/* 0, or -1 where all weights are 0. */
int prun_weights_of_halves(prun_model_of_symbols *model, const uint8_t table[PRUN_TABLE]);
int prun_weights_of_steps(prun_model_of_symbols *model, const uint8_t table[PRUN_TABLE]);
void prun_weights_of_members(prun_model_of_symbols *model, uint32_t kept, uint32_t among);

#endif
