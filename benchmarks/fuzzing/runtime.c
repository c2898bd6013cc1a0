/* Mutants of .prun files for the C runtime, made and run in one process: build it with sanitizers.

     runtime SEED COUNT FILE...        mutants 0 to COUNT - 1 of the seed
     runtime SEED -NUMBER FILE...      that one again

   A mutant is damaged anywhere, or in its header or sections under checksums that fit. Whatever it is, it has to be
   refused with a message or run. The last line counts what happened; a finding ends the process. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "prunnet.h"
#include "sha256.h"

enum { PREAMBLE = 44, SECONDS = 20, LARGEST_ARENA = 1 << 22 };

static uint64_t state;
static long long current;
static const char *stage = "";

static uint64_t drawn(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(size_t limit)
{
    return limit ? (size_t)(drawn() % limit) : 0;
}

typedef struct {
    uint8_t *bytes;
    size_t length, room;
} file;

static file read_file(const char *path)
{
    file found = {NULL, 0, 0};
    FILE *stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END))
        exit(2);
    found.length = found.room = (size_t)ftell(stream);
    rewind(stream);
    found.bytes = malloc(found.room);
    if (!found.bytes || fread(found.bytes, 1, found.length, stream) != found.length)
        exit(2);
    fclose(stream);
    return found;
}

static void splice(file *f, size_t at, size_t removed, const void *added, size_t count)
{
    if (f->length - removed + count > f->room) {
        f->room = 2 * (f->length + count);
        f->bytes = realloc(f->bytes, f->room);
        if (!f->bytes)
            exit(2);
    }
    memmove(f->bytes + at + count, f->bytes + at + removed, f->length - at - removed);
    memcpy(f->bytes + at, added, count);
    f->length = f->length - removed + count;
}

static size_t header_length(const file *f)
{
    if (f->length < PREAMBLE)
        return 0;
    size_t length = f->bytes[8] | (size_t)f->bytes[9] << 8 | (size_t)f->bytes[10] << 16 | (size_t)f->bytes[11] << 24;
    return PREAMBLE + length <= f->length ? length : 0;
}

static void seal_header(file *f, size_t length)
{
    for (int i = 0; i < 4; i++)
        f->bytes[8 + i] = (uint8_t)(length >> 8 * i);
    prun_sha256(f->bytes + PREAMBLE, length, f->bytes + 12);
}

/* Bytes from `start` to `end` changed somehow; returns by how much the length changed. */
static long damage(file *f, size_t start, size_t end)
{
    size_t before = f->length, at = start + below(end - start), left = end - at;
    uint8_t noise[16];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)drawn();
    switch (below(6)) {
    case 0:
        f->bytes[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        f->bytes[at] = (uint8_t)drawn();
        break;
    case 2:
        splice(f, at, 0, noise, 1 + below(sizeof noise));
        break;
    case 3:
        splice(f, at, 1 + below(left < 16 ? left : 16), noise, 0);
        break;
    case 4: {
        size_t count = 1 + below(left < 64 ? left : 64);
        memset(f->bytes + at, (int)below(256), count);
        break;
    }
    default: {
        size_t from = start + below(end - start), count = 1 + below(32);
        count = from + count > end ? end - from : count;
        count = at + count > end ? end - at : count;
        memmove(f->bytes + at, f->bytes + from, count);
    }
    }
    return (long)f->length - (long)before;
}

static int is_part(uint8_t c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '+' || c == 'e';
}

/* Another number, word or bracket in the header. */
static void change_token(file *f, size_t length)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "-1", "-2", "-3", "4", "5", "7", "8", "16", "17", "31", "32",
                                          "64", "255", "1024", "1025", "4096", "65536", "16777216", "67108864", "2147483647",
                                          "2147483648", "4294967296", "9007199254740993", "1e308", "1e999", "0.5", "0.01",
                                          "1.0", "1e-5", "-0", "0.1", "null", "true", "\"\"", "[]", "{}"};
    static const char *const names[] = {"conv2d", "batch_norm", "linear", "layer_norm", "relu", "relu6", "leaky_relu", "silu",
                                        "gelu", "gelu_tanh", "hardswish", "hardsigmoid", "sigmoid", "tanh", "add", "mul",
                                        "max_pool2d", "avg_pool2d", "mean", "pad", "reshape", "permute", "slice", "concat",
                                        "attention", "nearest", "bilinear", "bicubic", "box", "hamming", "lanczos", "int8",
                                        "float16"};
    size_t end = PREAMBLE + length, at = PREAMBLE + below(length);
    char other[24];
    if (below(8) == 0) { /* the next word */
        while (at < end && !(f->bytes[at] >= 'a' && f->bytes[at] <= 'z'))
            at++;
        size_t from = at;
        while (at < end && f->bytes[at] != '"')
            at++;
        const char *name = names[below(sizeof names / sizeof *names)];
        splice(f, from, at - from, name, strlen(name));
        return;
    }
    while (at < end && !is_part(f->bytes[at]))
        at++;
    size_t from = at;
    while (at < end && is_part(f->bytes[at]))
        at++;
    const char *text = numbers[below(sizeof numbers / sizeof *numbers)];
    if (below(2)) {
        long told = strtol((const char *)f->bytes + from, NULL, 10) % 1000000000;
        snprintf(other, sizeof other, "%ld", told + (long)below(5) - 2);
        text = other;
    }
    splice(f, from, at - from, text, strlen(text));
}

/* The checksum of each section, at the places where the header has them. */
static void seal_sections(file *f, size_t length)
{
    char *text = (char *)f->bytes + PREAMBLE, *end = text + length, *at = text;
    size_t start = PREAMBLE + length;
    static const char before[] = "{\"bytes\":", key[] = "\"sha256\":\"";
    for (at = text; at + sizeof before < end; at++) {
        if (memcmp(at, before, sizeof before - 1))
            continue;
        unsigned long long bytes = strtoull(at + sizeof before - 1, NULL, 10);
        char *hex = at;
        while (hex + sizeof key + 64 < end && memcmp(hex, key, sizeof key - 1))
            hex++;
        if (hex + sizeof key + 64 >= end || bytes > f->length || start > f->length - bytes)
            return;
        uint8_t digest[32];
        prun_sha256(f->bytes + start, (size_t)bytes, digest);
        hex += sizeof key - 1;
        for (int i = 0; i < 32; i++) {
            hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
            hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
        }
        start += (size_t)bytes;
    }
}

static void mutate(file *f)
{
    size_t length = header_length(f), way = below(100), times = 1 + below(3);
    if (way < 5 || !length) {
        while (times--)
            if (f->length)
                damage(f, 0, f->length);
        return;
    }
    for (; times; times--) {
        size_t start = PREAMBLE + length;
        if (way < 55) {
            size_t before = f->length;
            change_token(f, length);
            length += f->length - before;
        } else if (way < 70) {
            length = (size_t)((long)length + damage(f, PREAMBLE, PREAMBLE + length));
        } else if (start < f->length) {
            size_t reach = f->length - start, end = start + (below(2) ? reach : (reach < 4096 ? reach : 4096));
            damage(f, start, end);
        }
        if (!length)
            break;
    }
    if (below(20))
        seal_sections(f, length);
    if (below(40) == 0)
        f->length = below(f->length + 1);
    if (f->length >= PREAMBLE + length)
        seal_header(f, length);
}

static void hangs(int signal_number)
{
    (void)signal_number;
    static const char text[] = "finding: a mutant hangs\n";
    if (write(1, text, sizeof text - 1) < 0)
        _exit(3);
    fprintf(stderr, "mutant %lld in %s\n", current, stage);
    abort();
}

/* Of processor time, so that a mutant does not hang where others are at work. */
static void limit_to(int seconds)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

enum { REFUSED, NOT_PLANNED, LARGE, NOT_RUN, RAN, OUTCOMES };

static int embed(prunnet_model *model, const uint8_t *pixels, float *embedding)
{
    int code = prunnet_embed_picture(model, pixels, 1 + (int)below(40), 1 + (int)below(40), (int[]){1, 3, 4}[below(3)], embedding);
    size_t size = (size_t)prunnet_input_size(model, 0) * (size_t)prunnet_input_size(model, 1) * (size_t)prunnet_input_size(model, 2);
    float *image = malloc(size * sizeof *image);
    for (size_t i = 0; i < size; i++)
        image[i] = (float)pixels[i % 4800] / 100;
    code = prunnet_embed_image(model, image, embedding) || code;
    free(image);
    return code ? NOT_RUN : RAN;
}

static int attempt(const file *f)
{
    static const uint8_t pixels[4 * 40 * 40] = {1, 2, 3, 200, 100, 50};
    static const double capacities[] = {0, 0.2, 0.4, 1.0, 0.3};
    prunnet_model *model;
    size_t split = below(4) ? f->length : below(f->length + 1);
    uint8_t *exact = malloc(f->length ? f->length : 1); /* of just that size, so that a byte beyond is seen */
    memcpy(exact, f->bytes, f->length);
    uint64_t header = prunnet_header_bytes(exact, f->length);
    if (split < header && header <= f->length)
        split = (size_t)header;
    stage = "open";
    int outcome = REFUSED, code = prunnet_open(&model, exact, split);
    stage = "plan";
    if (!code && split < f->length)
        code = prunnet_append(model, exact + split, f->length - split);
    if (!code) {
        outcome = prunnet_plan(model, capacities[below(5)], 1) ? NOT_PLANNED : RAN;
        float *embedding = malloc((size_t)prunnet_embedding_dim(model) * sizeof *embedding);
        stage = "embed";
        if (outcome == RAN)
            outcome = prunnet_arena_bytes(model) > LARGEST_ARENA ? LARGE : embed(model, pixels, embedding);
        if (outcome == RAN && below(4) == 0 && !prunnet_plan(model, capacities[below(5)], 1))
            embed(model, pixels, embedding);
        free(embedding);
    }
    if (outcome < LARGE && !*prunnet_message(model)) {
        puts("finding: refused without a message");
        abort();
    }
    prunnet_close(model);
    free(exact);
    return outcome;
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    uint64_t seed = strtoull(arguments[1], NULL, 10);
    long long mutants = atoll(arguments[2]), first = mutants < 0 ? -mutants : 0, last = mutants < 0 ? first + 1 : mutants;
    long outcomes[OUTCOMES] = {0};
    int files = count - 3;
    file *seeds = malloc((size_t)files * sizeof *seeds), mutant = {NULL, 0, 0};
    for (int i = 0; i < files; i++)
        seeds[i] = read_file(arguments[3 + i]);
    signal(SIGPROF, hangs);
    for (current = first; current < last; current++) {
        state = seed * 0x9e3779b97f4a7c15u + (uint64_t)current * 0xd1342543de82ef95u;
        const file *original = seeds + below((size_t)files);
        if (mutant.room < original->length) {
            free(mutant.bytes);
            mutant.bytes = malloc(mutant.room = 2 * original->length);
        }
        memcpy(mutant.bytes, original->bytes, mutant.length = original->length);
        limit_to(SECONDS);
        mutate(&mutant);
        outcomes[attempt(&mutant)]++;
        if (current % 100000 == 99999)
            fprintf(stderr, "%lld mutants\n", current + 1);
    }
    limit_to(0);
    for (int i = 0; i < files; i++)
        free(seeds[i].bytes);
    free(seeds);
    free(mutant.bytes);
    printf("refused %ld, not planned %ld, too large to try %ld, not run %ld, ran %ld\n", outcomes[REFUSED],
           outcomes[NOT_PLANNED], outcomes[LARGE], outcomes[NOT_RUN], outcomes[RAN]);
    return 0;
}
