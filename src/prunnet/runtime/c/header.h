/* The header of a .prun file, checked as prunnet.storage.prun.header does: every claim against the others. */
#ifndef PRUN_HEADER_H
#define PRUN_HEADER_H

#include "json.h"
#include "platform.h"

enum { PRUN_MESSAGE = 256, PRUN_RANK = 8, PRUN_PREAMBLE = 44, PRUN_CHANNELS = 4096 };

typedef struct {
    int code;
    char text[PRUN_MESSAGE];
} prun_problem;

/* Set the message and return `code`. %s: text · %t: text and its int length · %d: int64_t · %c: capacity (double) */
int prun_fail(prun_problem *problem, int code, const char *format, ...);

typedef struct {
    const char *name;
    int name_size, rank, stepped;
    uint32_t dims[PRUN_RANK];
    uint32_t size;   /* number of values, below 2^31 */
    uint32_t filter; /* values of one index of the first dimension */
} prun_tensor;

typedef struct {
    uint64_t start, bytes, membership;
    uint8_t sha256[32];
} prun_section;

typedef struct {
    int input_size[3];
    double mean[PRUN_CHANNELS], std[PRUN_CHANNELS];
    int interpolation; /* as in prun_interpolations */
    double crop_pct;
} prun_preprocessing;

extern const char *const prun_interpolations[6]; /* nearest, bilinear, bicubic, box, hamming, lanczos */

typedef struct {
    json_document document; /* names and program point into it */
    char family_id[4 * 200 + 1];
    int version, embedding_dim;
    prun_preprocessing preprocessing;
    int layers, statistics, rest; /* how many tensors of each there are, in this order */
    prun_tensor *tensors;
    int bands;
    double *grid;
    uint32_t *kept; /* per band and layer; NULL where each layer keeps its share */
    prun_section *sections;
    const json_node *program; /* NULL if there is none */
} prun_header;

/* From JSON of `length` bytes, which begins at PRUN_PREAMBLE of the file; 0, or a code with the problem told. */
int prun_header_read(prun_header *header, const char *text, size_t length, prun_problem *problem);
void prun_header_free(prun_header *header);

uint32_t prun_kept(const prun_header *header, int band, int layer);    /* at the capacity of `band`; 0 below the first */
uint32_t prun_joining(const prun_header *header, int band, int layer); /* kept there and not before */
int prun_is_mean(const prun_tensor *tensor);
int prun_is_variance(const prun_tensor *tensor);

/* Counts of a section's whole tensors: their number and their values; of the low bytes of halved layers; and so on. */
typedef struct {
    uint64_t exponents, tables, low, values, joining;
} prun_sizes;
prun_sizes prun_section_sizes(const prun_header *header, int section);

#endif
