#include "exact.h"

prun_big prun_big_from(uint64_t value)
{
    prun_big number = {{(uint32_t)value, (uint32_t)(value >> 32)}};
    return number;
}

int prun_big_times(prun_big *number, uint32_t factor)
{
    uint64_t carry = 0;
    for (int i = 0; i < PRUN_LIMBS; i++) {
        carry += (uint64_t)number->limb[i] * factor;
        number->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return carry ? -1 : 0;
}

static int length(const prun_big *number)
{
    for (int i = PRUN_LIMBS - 1; i >= 0; i--)
        if (number->limb[i]) {
            int bits = 32;
            while (!(number->limb[i] >> (bits - 1)))
                bits--;
            return 32 * i + bits;
        }
    return 0;
}

static void doubled(prun_big *number)
{
    for (int i = PRUN_LIMBS - 1; i >= 0; i--)
        number->limb[i] = number->limb[i] << 1 | (i ? number->limb[i - 1] >> 31 : 0);
}

static int compare(const prun_big *a, const prun_big *b)
{
    for (int i = PRUN_LIMBS - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static void subtract(prun_big *a, const prun_big *b)
{
    int64_t borrow = 0;
    for (int i = 0; i < PRUN_LIMBS; i++) {
        borrow += (int64_t)a->limb[i] - b->limb[i];
        a->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
}

double prun_quotient(prun_big over, prun_big under)
{
    int shift = 0, gap = length(&over) - length(&under);
    if (!length(&over))
        return 0;
    for (; gap > 0; gap--, shift++)
        doubled(&under);
    for (; gap < 0; gap++, shift--)
        doubled(&over);
    if (compare(&over, &under) < 0) {
        doubled(&over);
        shift--;
    }
    /* now 1 <= over / under < 2: 53 bits of it, and what is left decides the rounding */
    uint64_t bits = 0;
    for (int i = 0; i < 53; i++) {
        bits <<= 1;
        if (compare(&over, &under) >= 0) {
            subtract(&over, &under);
            bits |= 1;
        }
        doubled(&over);
    }
    int half = compare(&over, &under);
    if (half > 0 || (half == 0 && bits & 1))
        bits++;
    return ldexp((double)bits, shift - 52);
}

double prun_round_even(double value)
{
    double below = floor(value), left = value - below;
    return left > 0.5 || (left == 0.5 && fmod(below, 2) != 0) ? below + 1 : below;
}
