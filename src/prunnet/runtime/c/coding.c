#include "coding.h"

#include "exact.h"

static uint64_t next_word(prun_decoder *d)
{
    if (d->end - d->words < 4)
        return 0;
    const uint8_t *w = d->words;
    d->words += 4;
    return w[0] | (uint64_t)w[1] << 8 | (uint64_t)w[2] << 16 | (uint64_t)w[3] << 24;
}

void prun_decoder_start(prun_decoder *d, const uint8_t *words, size_t bytes)
{
    d->words = words;
    d->end = words + bytes;
    d->low = 0;
    d->range = UINT64_MAX;
    d->point = next_word(d) << 32;
    d->point |= next_word(d);
}

int prun_decode(prun_decoder *d, const prun_model_of_symbols *model, uint8_t *symbols, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t unit = d->range >> 24, quantile = (d->point - d->low) / unit;
        if (quantile >> 24)
            return -1;
        unsigned s = model->first[quantile >> 16];
        while (model->bound[s + 1] <= quantile)
            s++;
        d->low += unit * model->bound[s];
        d->range = unit * (model->bound[s + 1] - model->bound[s]);
        if (!(d->range >> 32)) {
            d->low <<= 32;
            d->range <<= 32;
            d->point = d->point << 32 | next_word(d);
        }
        symbols[i] = (uint8_t)s;
    }
    return 0;
}

/* Double precision throughout, in this order: encoder and decoder have to agree in every bit. Compiled without
   contraction into fused multiply-adds. */
static int settle(prun_model_of_symbols *model, const double weights[256])
{
    double sums[257], sum = 0;
    for (int s = 0; s < 256; s++) {
        sums[s] = sum;
        sum += weights[s];
    }
    if (!(sum > 0))
        return -1;
    double scale = (double)((1 << 24) - 256) / sum;
    for (int s = 0; s < 256; s++) {
        volatile double scaled = sums[s] * scale;
        model->bound[s] = (uint32_t)scaled + (uint32_t)s;
    }
    model->bound[256] = 1 << 24;
    for (unsigned part = 0, s = 0; part < 256; part++) {
        while (model->bound[s + 1] <= part << 16)
            s++;
        model->first[part] = (uint8_t)s;
    }
    return 0;
}

int prun_weights_of_halves(prun_model_of_symbols *model, const uint8_t table[PRUN_TABLE])
{
    double weights[256];
    for (int s = 0; s < 256; s++)
        weights[s] = table[s >> 2 & 31];
    return settle(model, weights);
}

int prun_weights_of_steps(prun_model_of_symbols *model, const uint8_t table[PRUN_TABLE])
{
    double weights[256];
    for (int s = 0; s < 256; s++)
        weights[s] = table[s >> 3];
    return settle(model, weights);
}

void prun_weights_of_members(prun_model_of_symbols *model, uint32_t kept, uint32_t among)
{
    double by_ones[9], weights[256];
    prun_big all = prun_big_from(1);
    for (int i = 0; i < 8; i++)
        prun_big_times(&all, among);
    for (int ones = 0; ones < 9; ones++) {
        prun_big product = prun_big_from(1);
        for (int i = 0; i < 8; i++)
            prun_big_times(&product, i < ones ? kept : among - kept);
        by_ones[ones] = prun_quotient(product, all);
    }
    for (int s = 0; s < 256; s++) {
        int ones = 0;
        for (int bit = 0; bit < 8; bit++)
            ones += s >> bit & 1;
        weights[s] = by_ones[ones];
    }
    settle(model, weights);
}
