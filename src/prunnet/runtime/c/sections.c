#include "sections.h"

#include "coding.h"
#include "prunnet.h"

typedef struct {
    const prun_header *header;
    const uint8_t *exponents, *tables, *low;
    prun_decoder membership, values;
    uint8_t *symbols; /* room for the values of any layer or section */
    prun_problem *problem;
} reader;

static void open_section(reader *r, const uint8_t *file, int index)
{
    const prun_section *section = r->header->sections + index;
    prun_sizes sizes = prun_section_sizes(r->header, index);
    const uint8_t *start = file + section->start;
    r->exponents = start;
    r->tables = r->exponents + sizes.exponents;
    r->low = r->tables + sizes.tables;
    const uint8_t *membership = r->low + sizes.low, *values = membership + section->membership;
    prun_decoder_start(&r->membership, membership, (size_t)section->membership);
    prun_decoder_start(&r->values, values, (size_t)(start + section->bytes - values));
}

static int invalid(reader *r, const char *what)
{
    return prun_fail(r->problem, PRUNNET_DAMAGED, "it cannot be unpacked: %s", what);
}

static int next_exponent(reader *r)
{
    int value = r->exponents[0] | r->exponents[1] << 8;
    r->exponents += 2;
    return value < 32768 ? value : value - 65536;
}

/* The high bytes of `count` halves into `symbols`; the low ones follow one by one. */
static int next_high(reader *r, uint64_t count)
{
    prun_model_of_symbols model;
    const uint8_t *table = r->tables;
    r->tables += PRUN_TABLE;
    if (!count)
        return 0;
    if (prun_weights_of_halves(&model, table) || prun_decode(&r->values, &model, r->symbols, (size_t)count))
        return invalid(r, "its coded symbols are not valid");
    return 0;
}

static int from_half(unsigned half, int exponent, float *value)
{
    int power = (int)(half >> 10 & 31);
    unsigned fraction = half & 1023;
    if (power == 31)
        return -1;
    float scaled = power ? ldexpf((float)(1024 + fraction), power - 25 + exponent) : ldexpf((float)fraction, exponent - 24);
    if (scaled > FLT_MAX)
        scaled = FLT_MAX;
    *value = half >> 15 ? -scaled : scaled;
    return 0;
}

static int next_tensor(reader *r, const uint8_t **symbols, uint32_t size, float *to, int add)
{
    int exponent = next_exponent(r);
    for (uint32_t i = 0; i < size; i++) {
        float value;
        if (from_half((unsigned)*(*symbols)++ << 8 | *r->low++, exponent, &value))
            return invalid(r, "it holds values that are not finite");
        to[i] = add ? to[i] + value : value;
    }
    return 0;
}

static int read_first(reader *r, float **values, float **scales, int *exponents)
{
    const prun_header *h = r->header;
    const prun_tensor *rest = h->tensors + h->layers + h->statistics;
    const uint8_t *symbols = r->symbols;
    int code = next_high(r, prun_section_sizes(h, 0).values);
    for (int i = 0; !code && i < h->rest; i++)
        code = next_tensor(r, &symbols, rest[i].size, values[h->layers + h->statistics + i], 0);
    for (int i = 0; !code && i < h->layers; i++)
        if (h->tensors[i].stepped)
            code = next_tensor(r, &symbols, h->tensors[i].dims[0], scales[i], 0);
    for (int i = 0; !code && i < h->layers; i++)
        if (!h->tensors[i].stepped)
            exponents[i] = next_exponent(r);
    return code;
}

static int read_statistics(reader *r, int section, float **values)
{
    const prun_header *h = r->header;
    const uint8_t *symbols = r->symbols;
    int code = next_high(r, prun_section_sizes(h, section).values);
    for (int fine = 0; fine < 2; fine++)
        for (int i = h->layers; !code && i < h->layers + h->statistics; i++)
            if (!fine || prun_is_mean(h->tensors + i))
                code = next_tensor(r, &symbols, h->tensors[i].size, values[i], fine);
    for (int i = h->layers; !code && i < h->layers + h->statistics; i++)
        if (prun_is_variance(h->tensors + i))
            for (uint32_t k = 0; k < h->tensors[i].size; k++)
                if (values[i][k] < 0)
                    return prun_fail(r->problem, PRUNNET_DAMAGED, "it cannot be unpacked: %t is below zero",
                                     h->tensors[i].name, h->tensors[i].name_size);
    return code;
}

/* Marks in `kept` the connections that join, and lists their positions. */
static int read_members(reader *r, uint32_t joining, uint32_t among, uint32_t size, uint8_t *kept, uint32_t *positions)
{
    prun_model_of_symbols model;
    uint32_t found = 0, seen = 0;
    int coded = joining && joining < among;
    if (!joining)
        return 0;
    if (coded) {
        prun_weights_of_members(&model, joining, among);
        if (prun_decode(&r->membership, &model, r->symbols, ((size_t)among + 7) / 8))
            return invalid(r, "its coded symbols are not valid");
        if (among % 8 && r->symbols[among / 8] & (0xff >> among % 8))
            return invalid(r, "it keeps another number of connections than it must");
    }
    for (uint32_t at = 0; at < size; at++) {
        if (kept[at])
            continue;
        if (!coded || r->symbols[seen >> 3] >> (7 - (seen & 7)) & 1) {
            if (found == joining)
                return invalid(r, "it keeps another number of connections than it must");
            positions[found++] = at;
            kept[at] = 1;
        }
        seen++;
    }
    return found == joining ? 0 : invalid(r, "it keeps another number of connections than it must");
}

static int read_steps(reader *r, const prun_tensor *layer, uint32_t joining, const uint32_t *positions,
                      const float *scales, float *values)
{
    prun_model_of_symbols model;
    const uint8_t *table = r->tables;
    r->tables += PRUN_TABLE;
    if (!joining)
        return 0;
    if (prun_weights_of_steps(&model, table) || prun_decode(&r->values, &model, r->symbols, joining))
        return invalid(r, "its coded symbols are not valid");
    for (uint32_t i = 0; i < joining; i++)
        values[positions[i]] = (float)(r->symbols[i] - 128) * scales[positions[i] / layer->filter];
    return 0;
}

static int read_halves(reader *r, uint32_t joining, const uint32_t *positions, int exponent, float *values)
{
    int code = next_high(r, joining);
    for (uint32_t i = 0; !code && i < joining; i++)
        if (from_half((unsigned)r->symbols[i] << 8 | *r->low++, exponent, values + positions[i]))
            return invalid(r, "it holds values that are not finite");
    return code;
}

typedef struct {
    float **scales;
    int *exponents;
    uint8_t **kept;
    uint32_t *positions;
} state;

static int read_band(reader *r, int band, float **values, state *s)
{
    const prun_header *h = r->header;
    int code = read_statistics(r, band + 1, values);
    for (int i = 0; !code && i < h->layers; i++) {
        const prun_tensor *layer = h->tensors + i;
        uint32_t joining = prun_joining(h, band, i), among = layer->size - prun_kept(h, band - 1, i);
        code = read_members(r, joining, among, layer->size, s->kept[i], s->positions);
        if (code)
            return code;
        code = layer->stepped ? read_steps(r, layer, joining, s->positions, s->scales[i], values[i])
                              : read_halves(r, joining, s->positions, s->exponents[i], values[i]);
    }
    return code;
}

static int take_memory(const prun_header *h, int band, float **values, reader *r, state *s)
{
    uint64_t most = 0, joining = 0;
    for (int i = 0; i <= band + 1; i++) {
        prun_sizes sizes = prun_section_sizes(h, i);
        most = sizes.values > most ? sizes.values : most;
    }
    for (int i = 0; i < h->layers; i++) {
        most = h->tensors[i].size > most ? h->tensors[i].size : most;
        joining = h->tensors[i].size > joining ? h->tensors[i].size : joining;
    }
    int enough = most <= SIZE_MAX / 4;
    s->scales = prun_allocate_array((uint64_t)h->layers, sizeof *s->scales);
    s->exponents = prun_allocate_array((uint64_t)h->layers, sizeof *s->exponents);
    s->kept = prun_allocate_array((uint64_t)h->layers, sizeof *s->kept);
    s->positions = enough ? prun_allocate_array(joining, sizeof *s->positions) : NULL;
    r->symbols = enough ? prun_allocate((size_t)most) : NULL;
    enough = enough && s->scales && s->exponents && s->kept && s->positions && r->symbols;
    for (int i = 0; enough && i < h->layers; i++) {
        s->kept[i] = prun_allocate(h->tensors[i].size);
        s->scales[i] = prun_allocate_array(h->tensors[i].stepped ? h->tensors[i].dims[0] : 1, sizeof(float));
        enough = s->kept[i] && s->scales[i];
    }
    for (int i = 0; enough && i < h->layers + h->statistics + h->rest; i++)
        enough = (values[i] = prun_allocate_array(h->tensors[i].size, sizeof(float))) != NULL;
    return enough ? 0 : -1;
}

int prun_decode_tensors(const prun_header *h, const uint8_t *file, int band, float **values, prun_problem *problem)
{
    reader r = {h, NULL, NULL, NULL, {0}, {0}, NULL, problem};
    state s = {NULL, NULL, NULL, NULL};
    int code = 0;
    if (take_memory(h, band, values, &r, &s))
        code = prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for its tensors");
    if (!code) {
        open_section(&r, file, 0);
        code = read_first(&r, values, s.scales, s.exponents);
    }
    for (int i = 0; !code && i <= band; i++) {
        open_section(&r, file, i + 1);
        code = read_band(&r, i, values, &s);
    }
    for (int i = 0; i < h->layers; i++) {
        if (s.kept)
            prun_release(s.kept[i]);
        if (s.scales)
            prun_release(s.scales[i]);
    }
    for (int i = 0; code && i < h->layers + h->statistics + h->rest; i++) {
        prun_release(values[i]);
        values[i] = NULL;
    }
    prun_release(s.kept);
    prun_release(s.scales);
    prun_release(s.exponents);
    prun_release(s.positions);
    prun_release(r.symbols);
    return code;
}
