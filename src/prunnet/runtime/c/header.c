#include "header.h"

#include <stdarg.h>

#include "coding.h"
#include "exact.h"
#include "prunnet.h"

enum { LEAST_BITS = 3, SLACK = 16, LARGEST_OPTION = 1 << 16, LARGEST_SIDE = 1 << 12, MOST_BANDS = 4096 };
#define LARGEST_TENSOR 2147483647.0
#define SMALLEST 0.01
#define LARGEST_SECTION 281474976710656.0 /* 2^48 */

const char *const prun_interpolations[6] = {"nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"};

/* Messages */

static void put(prun_problem *problem, size_t *at, char c)
{
    if (*at + 1 < PRUN_MESSAGE)
        problem->text[(*at)++] = (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
}

static void put_number(prun_problem *problem, size_t *at, int64_t value)
{
    char digits[24];
    int count = 0;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[count++] = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        put(problem, at, '-');
    while (count)
        put(problem, at, digits[--count]);
}

static void put_capacity(prun_problem *problem, size_t *at, double capacity)
{
    double percent = 100 * capacity;
    if (!(percent > 0 && percent <= 1e6)) {
        put(problem, at, '?');
        return;
    }
    int64_t digits = percent >= 10 ? 100 : 1000, scaled = (int64_t)(percent * (double)digits + 0.5);
    put_number(problem, at, scaled / digits);
    if (scaled %= digits) {
        put(problem, at, '.');
        for (; scaled && digits > 1; scaled %= digits)
            digits /= 10, put(problem, at, (char)('0' + scaled / digits));
    }
    put(problem, at, ' ');
    put(problem, at, '%');
}

int prun_fail(prun_problem *problem, int code, const char *format, ...)
{
    size_t at = 0;
    va_list told;
    va_start(told, format);
    for (; *format; format++) {
        if (*format != '%') {
            put(problem, &at, *format);
            continue;
        }
        switch (*++format) {
        case 's':
            for (const char *text = va_arg(told, const char *); *text; text++)
                put(problem, &at, *text);
            break;
        case 't': {
            const char *text = va_arg(told, const char *);
            for (int left = va_arg(told, int); left > 0; left--)
                put(problem, &at, *text++);
            break;
        }
        case 'd':
            put_number(problem, &at, va_arg(told, int64_t));
            break;
        case 'c':
            put_capacity(problem, &at, va_arg(told, double));
            break;
        }
    }
    va_end(told);
    problem->text[at] = 0;
    return problem->code = code;
}

static int invalid(prun_problem *problem, const char *what)
{
    return prun_fail(problem, PRUNNET_DAMAGED, "it is no valid .prun file: %s", what);
}

/* Values of the header, by type */

static int is_whole(const json_node *node, double least, double most)
{
    return node && node->type == JSON_NUMBER && node->whole && node->number >= least && node->number <= most;
}

static int is_number(const json_node *node)
{
    return node && node->type == JSON_NUMBER;
}

static int is_list(const json_node *node)
{
    return node && node->type == JSON_ARRAY;
}

static int is_line(const json_node *node)
{
    if (!node || node->type != JSON_STRING || !node->size)
        return 0;
    int characters = 0;
    for (uint32_t i = 0; i < node->size; i++) {
        unsigned char c = (unsigned char)node->text[i];
        if (c < 0x20 || c == 0x7f)
            return 0;
        characters += (c & 0xc0) != 0x80;
    }
    return characters <= 200;
}

static int is_word(const json_node *node)
{
    if (!node || node->type != JSON_STRING || !node->size || node->size > 200)
        return 0;
    for (uint32_t i = 0; i < node->size; i++) {
        char c = node->text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-'))
            return 0;
    }
    return 1;
}

/* Whether an object has each of `required`, and nothing else but those of `optional`, each once. */
static int has_keys(const json_node *object, const char *const *required, const char *const *optional)
{
    uint32_t count = 0;
    if (!object || object->type != JSON_OBJECT)
        return 0;
    for (; *required; required++, count++)
        if (!json_entry(object, *required))
            return 0;
    for (; optional && *optional; optional++)
        count += json_entry(object, *optional) != NULL;
    return count == object->count;
}

static int sizes_are_fair(const json_node *node)
{
    if (node->type == JSON_NUMBER)
        return node->number >= -LARGEST_OPTION && node->number <= LARGEST_OPTION;
    for (const json_node *child = node->first; child; child = child->next)
        if (!sizes_are_fair(child))
            return 0;
    return 1;
}

static int read_backbone(const json_node *node)
{
    static const char *const keys[] = {"name", "options", NULL};
    if (node->type == JSON_NULL)
        return 0;
    if (!has_keys(node, keys, NULL) || !is_word(json_entry(node, "name")))
        return -1;
    const json_node *options = json_entry(node, "options");
    return options->type == JSON_OBJECT && sizes_are_fair(options) ? 0 : -1;
}

static int read_channels(const json_node *list, int channels, double *values, int positive)
{
    if (!is_list(list) || list->count != (uint32_t)channels)
        return -1;
    for (const json_node *item = list->first; item; item = item->next) {
        if (!is_number(item) || (positive && !(item->number > 0)))
            return -1;
        *values++ = item->number;
    }
    return 0;
}

static int read_preprocessing(prun_preprocessing *told, const json_node *node)
{
    static const char *const keys[] = {"input_size", "mean", "std", "interpolation", "crop_pct", NULL};
    if (!has_keys(node, keys, NULL))
        return -1;
    const json_node *size = json_entry(node, "input_size"), *crop = json_entry(node, "crop_pct");
    if (!is_list(size) || size->count != 3)
        return -1;
    int *side = told->input_size;
    for (const json_node *item = size->first; item; item = item->next) {
        if (!is_whole(item, 1, LARGEST_SIDE))
            return -1;
        *side++ = (int)item->number;
    }
    if (read_channels(json_entry(node, "mean"), told->input_size[0], told->mean, 0) ||
        read_channels(json_entry(node, "std"), told->input_size[0], told->std, 1))
        return -1;
    if (!is_number(crop) || !(crop->number > 0) || crop->number > LARGEST_SIDE)
        return -1;
    told->crop_pct = crop->number;
    for (told->interpolation = 0; told->interpolation < 6; told->interpolation++)
        if (json_is_text(json_entry(node, "interpolation"), prun_interpolations[told->interpolation]))
            return 0;
    return -1;
}

static int read_shapes(const json_node *object, prun_tensor *tensors, prun_problem *problem)
{
    for (const json_node *entry = object->first; entry; entry = entry->next, tensors++) {
        if (!is_list(entry) || entry->count > PRUN_RANK || entry->key_size > INT_MAX)
            return invalid(problem, "a shape is none");
        double size = 1;
        tensors->name = entry->key;
        tensors->name_size = (int)entry->key_size;
        for (const json_node *side = entry->first; side; side = side->next) {
            if (!is_whole(side, 1, LARGEST_TENSOR))
                return invalid(problem, "a shape is none");
            tensors->dims[tensors->rank++] = (uint32_t)side->number;
            size *= side->number;
            if (size > LARGEST_TENSOR)
                return prun_fail(problem, PRUNNET_DAMAGED, "it is no valid .prun file: %t is too large", tensors->name,
                                 tensors->name_size);
        }
        tensors->size = (uint32_t)size;
        tensors->filter = tensors->rank ? tensors->size / tensors->dims[0] : 1;
    }
    return 0;
}

static int by_name(const void *left, const void *right)
{
    const prun_tensor *a = *(const prun_tensor *const *)left, *b = *(const prun_tensor *const *)right;
    int shorter = a->name_size < b->name_size ? a->name_size : b->name_size;
    int order = shorter ? memcmp(a->name, b->name, (size_t)shorter) : 0;
    return order ? order : (a->name_size > b->name_size) - (a->name_size < b->name_size);
}

static int read_tensors(prun_header *header, const json_node *root, prun_problem *problem)
{
    const json_node *parts[3] = {json_entry(root, "layers"), json_entry(root, "statistics"), json_entry(root, "rest")};
    uint64_t count = 0;
    for (int i = 0; i < 3; i++) {
        if (parts[i]->type != JSON_OBJECT)
            return invalid(problem, "a list of shapes is none");
        count += parts[i]->count;
    }
    header->layers = (int)parts[0]->count;
    header->statistics = (int)parts[1]->count;
    header->rest = (int)parts[2]->count;
    if (!header->layers)
        return invalid(problem, "it names no layers, or layers that are none");
    header->tensors = prun_allocate_array(count, sizeof(prun_tensor));
    const prun_tensor **sorted = prun_allocate_array(count, sizeof *sorted);
    if (!header->tensors || !sorted) {
        prun_release(sorted);
        return prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for its header");
    }
    int code = read_shapes(parts[0], header->tensors, problem);
    if (!code)
        code = read_shapes(parts[1], header->tensors + header->layers, problem);
    if (!code)
        code = read_shapes(parts[2], header->tensors + header->layers + header->statistics, problem);
    for (int i = 0; !code && i < header->layers; i++)
        if (header->tensors[i].rank < 2)
            code = invalid(problem, "it names no layers, or layers that are none");
    for (uint64_t i = 0; i < count; i++)
        sorted[i] = header->tensors + i;
    if (!code)
        prun_sort(sorted, (size_t)count, sizeof *sorted, by_name);
    for (uint64_t i = 1; !code && i < count; i++)
        if (!by_name(sorted + i - 1, sorted + i))
            code = invalid(problem, "it names a tensor twice");
    prun_release(sorted);
    return code;
}

static int read_stepped(prun_header *header, const json_node *list, int allowed, prun_problem *problem)
{
    if (!is_list(list))
        return invalid(problem, "stepped is no list");
    int layer = 0;
    for (const json_node *item = list->first; item; item = item->next) {
        if (item->type != JSON_STRING)
            return invalid(problem, "stepped is no list of names");
        while (layer < header->layers && (header->tensors[layer].name_size != (int)item->size ||
                                          memcmp(header->tensors[layer].name, item->text, item->size)))
            layer++;
        if (layer == header->layers)
            return invalid(problem, "its stepped layers are not among its layers, in their order");
        header->tensors[layer++].stepped = 1;
    }
    return list->count && !allowed ? invalid(problem, "it has stepped layers, which float16 does not allow") : 0;
}

static int read_grid(prun_header *header, const json_node *list, prun_problem *problem)
{
    if (!is_list(list) || !list->count || list->count > MOST_BANDS)
        return invalid(problem, "its grid is none");
    header->grid = prun_allocate_array(list->count, sizeof(double));
    if (!header->grid)
        return prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for its header");
    double before = 0;
    for (const json_node *item = list->first; item; item = item->next) {
        if (!is_number(item) || !(item->number > 0 && item->number <= 1))
            return invalid(problem, "its grid holds what is no capacity");
        if (item->number < SMALLEST)
            return prun_fail(problem, PRUNNET_DAMAGED,
                             "it is no valid .prun file: a .prun file starts at %c or more; found %c", SMALLEST, item->number);
        if (item->number <= before)
            return invalid(problem, "its grid does not rise");
        before = header->grid[header->bands++] = item->number;
    }
    return 0;
}

/* How many connections of each layer the prefixes keep, where it is not the same share of each. */
static int read_kept(prun_header *header, const json_node *list, prun_problem *problem)
{
    if (!list || list->type == JSON_NULL)
        return 0;
    if (header->version == 2 || !is_list(list) || list->count != (uint32_t)header->bands)
        return invalid(problem, "it does not say for every band how many connections are kept");
    double total = 0;
    for (int i = 0; i < header->layers; i++)
        total += header->tensors[i].size;
    for (const json_node *counts = list->first; counts; counts = counts->next)
        if (!is_list(counts) || counts->count != (uint32_t)header->layers)
            return invalid(problem, "it does not say for every layer how many connections are kept");
    uint32_t *kept = header->kept = prun_allocate_array((uint64_t)list->count * (uint64_t)header->layers, sizeof *kept);
    if (!kept)
        return prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for its header");
    const double *capacity = header->grid;
    for (const json_node *counts = list->first; counts; counts = counts->next, capacity++) {
        double sum = 0;
        int layer = 0;
        for (const json_node *item = counts->first; item; item = item->next, layer++, kept++) {
            double least = counts == list->first ? 1 : kept[-header->layers];
            if (!is_whole(item, least, header->tensors[layer].size))
                return prun_fail(problem, PRUNNET_DAMAGED,
                                 "it is no valid .prun file: its counts at %c are not those of nested subnetworks", *capacity);
            sum += item->number;
            *kept = (uint32_t)item->number;
        }
        if (!(fabs(sum - *capacity * total) <= header->layers))
            return prun_fail(problem, PRUNNET_DAMAGED, "it is no valid .prun file: it keeps %d of %d connections at %c",
                             (int64_t)sum, (int64_t)total, *capacity);
    }
    return 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_sections(prun_header *header, const json_node *list, uint64_t start, prun_problem *problem)
{
    static const char *const keys[] = {"bytes", "membership", "sha256", NULL};
    if (!is_list(list) || list->count != (uint32_t)header->bands + 1)
        return invalid(problem, "it does not have a section per band");
    prun_section *section = header->sections = prun_allocate_array(list->count, sizeof *section);
    if (!section)
        return prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for its header");
    for (const json_node *item = list->first; item; item = item->next, section++) {
        const json_node *bytes, *membership, *sha;
        if (!has_keys(item, keys, NULL))
            return invalid(problem, "a section is none");
        bytes = json_entry(item, "bytes");
        membership = json_entry(item, "membership");
        sha = json_entry(item, "sha256");
        if (!is_whole(bytes, 0, LARGEST_SECTION) || !is_whole(membership, 0, LARGEST_SECTION))
            return invalid(problem, "a section has a length that is none");
        if (sha->type != JSON_STRING || sha->size != 64)
            return invalid(problem, "a section has a checksum that is none");
        for (int i = 0; i < 64; i++) {
            int digit = hex_digit(sha->text[i]);
            if (digit < 0)
                return invalid(problem, "a section has a checksum that is none");
            section->sha256[i / 2] = (uint8_t)(section->sha256[i / 2] << 4 | digit);
        }
        section->start = start;
        section->bytes = (uint64_t)bytes->number;
        section->membership = (uint64_t)membership->number;
        start += section->bytes;
    }
    return 0;
}

static int check_sections(const prun_header *header, prun_problem *problem)
{
    for (int index = 0; index <= header->bands; index++) {
        prun_sizes sizes = prun_section_sizes(header, index);
        uint64_t raw = sizes.exponents + sizes.tables + sizes.low;
        uint64_t coded = LEAST_BITS * (sizes.values + sizes.joining) / 8;
        uint64_t least = raw + (coded > SLACK ? coded - SLACK : 0);
        const prun_section *section = header->sections + index;
        if (section->bytes < least + section->membership || (section->bytes - raw) % 4 || section->membership % 4)
            return prun_fail(problem, PRUNNET_DAMAGED,
                             "it is no valid .prun file: section %d of %d bytes cannot hold what it claims",
                             (int64_t)index, (int64_t)section->bytes);
    }
    return 0;
}

static int check_head(const prun_header *header, prun_problem *problem)
{
    static const char name[] = "head.linear.weight";
    const prun_tensor *rest = header->tensors + header->layers + header->statistics;
    for (int i = 0; i < header->rest; i++, rest++)
        if (rest->name_size == (int)sizeof name - 1 && !memcmp(rest->name, name, sizeof name - 1))
            return rest->rank == 2 && rest->dims[0] == (uint32_t)header->embedding_dim
                       ? 0
                       : prun_fail(problem, PRUNNET_DAMAGED,
                                   "it is no valid .prun file: its head does not give %d dimensions",
                                   (int64_t)header->embedding_dim);
    return invalid(problem, "it has no head");
}

static int read_stamp(prun_header *header, const json_node *root, prun_problem *problem)
{
    const json_node *format = root->type == JSON_OBJECT ? json_entry(root, "format") : NULL;
    const json_node *version = format ? json_entry(root, "version") : NULL;
    if (!version || !json_is_text(format, "prunnet-progressive") || !is_whole(version, 0, 1e9))
        return invalid(problem, "it has no format and version");
    if (version->number > 3)
        return prun_fail(problem, PRUNNET_DAMAGED, "it has format version %d, this runtime reads up to 3; upgrade it",
                         (int64_t)version->number);
    if (version->number < 2)
        return invalid(problem, "version: it should be 2 or 3");
    header->version = (int)version->number;
    return 0;
}

static int read_all(prun_header *header, const json_node *root, uint64_t start, prun_problem *problem)
{
    static const char *const keys[] = {"format", "version", "family_id", "backbone", "backbone_class",
                                       "embedding_dim", "preprocessing", "values", "stepped", "grid",
                                       "layers", "statistics", "rest", "sections", NULL};
    static const char *const later[] = {"kept", "program", NULL};
    if (!has_keys(root, keys, later))
        return invalid(problem, "it lacks an entry, or has one that is not known");
    const json_node *id = json_entry(root, "family_id"), *dim = json_entry(root, "embedding_dim");
    if (!is_line(id))
        return invalid(problem, "family_id: it is none");
    memcpy(header->family_id, id->text, id->size);
    if (read_backbone(json_entry(root, "backbone")) || !is_word(json_entry(root, "backbone_class")))
        return invalid(problem, "backbone: it is none");
    if (!is_whole(dim, 1, LARGEST_TENSOR))
        return invalid(problem, "embedding_dim: it is none");
    header->embedding_dim = (int)dim->number;
    if (read_preprocessing(&header->preprocessing, json_entry(root, "preprocessing")))
        return invalid(problem, "preprocessing: it is none");
    const json_node *values = json_entry(root, "values");
    if (!json_is_text(values, "float16") && !json_is_text(values, "int8"))
        return invalid(problem, "values: they should be float16 or int8");
    int code;
    if ((code = read_grid(header, json_entry(root, "grid"), problem)) || (code = read_tensors(header, root, problem)) ||
        (code = read_stepped(header, json_entry(root, "stepped"), json_is_text(values, "int8"), problem)) ||
        (code = read_kept(header, json_entry(root, "kept"), problem)) || (code = check_head(header, problem)) ||
        (code = read_sections(header, json_entry(root, "sections"), start, problem)))
        return code;
    const json_node *program = json_entry(root, "program");
    header->program = program && program->type != JSON_NULL ? program : NULL;
    if (header->program && header->version == 2)
        return invalid(problem, "it has a program, which version 2 does not allow");
    return check_sections(header, problem);
}

int prun_header_read(prun_header *header, const char *text, size_t length, prun_problem *problem)
{
    const char *reason;
    const json_node *root = json_parse(&header->document, text, length, &reason);
    if (!root)
        return invalid(problem, reason);
    int code = read_stamp(header, root, problem);
    return code ? code : read_all(header, root, PRUN_PREAMBLE + (uint64_t)length, problem);
}

void prun_header_free(prun_header *header)
{
    json_free(&header->document);
    prun_release(header->tensors);
    prun_release(header->grid);
    prun_release(header->kept);
    prun_release(header->sections);
}

uint32_t prun_kept(const prun_header *header, int band, int layer)
{
    if (band < 0)
        return 0;
    if (header->kept)
        return header->kept[(size_t)band * (size_t)header->layers + (size_t)layer];
    double kept = prun_round_even(header->grid[band] * header->tensors[layer].size);
    return kept < 1 ? 1 : (uint32_t)kept;
}

uint32_t prun_joining(const prun_header *header, int band, int layer)
{
    return prun_kept(header, band, layer) - prun_kept(header, band - 1, layer);
}

static int ends_with(const prun_tensor *tensor, const char *ending)
{
    int size = (int)strlen(ending);
    return tensor->name_size >= size && !memcmp(tensor->name + tensor->name_size - size, ending, (size_t)size);
}

int prun_is_mean(const prun_tensor *tensor)
{
    return ends_with(tensor, "running_mean");
}

int prun_is_variance(const prun_tensor *tensor)
{
    return ends_with(tensor, "running_var");
}

prun_sizes prun_section_sizes(const prun_header *header, int section)
{
    prun_sizes sizes = {0, PRUN_TABLE, 0, 0, 0};
    const prun_tensor *layers = header->tensors, *statistics = layers + header->layers, *rest = statistics + header->statistics;
    if (!section) {
        for (int i = 0; i < header->rest; i++)
            sizes.exponents += 2, sizes.values += rest[i].size;
        for (int i = 0; i < header->layers; i++)
            sizes.exponents += 2, sizes.values += layers[i].stepped ? layers[i].dims[0] : 0;
        sizes.low = sizes.values;
        return sizes;
    }
    for (int i = 0; i < header->statistics; i++) {
        int twice = 1 + prun_is_mean(statistics + i);
        sizes.exponents += (uint64_t)(2 * twice);
        sizes.values += (uint64_t)twice * statistics[i].size;
    }
    sizes.low = sizes.values;
    for (int i = 0; i < header->layers; i++) {
        uint32_t joining = prun_joining(header, section - 1, i);
        sizes.joining += joining;
        sizes.low += layers[i].stepped ? 0 : joining;
        sizes.tables += PRUN_TABLE;
    }
    return sizes;
}
