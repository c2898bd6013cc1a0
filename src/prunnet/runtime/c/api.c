#include "header.h"
#include "picture.h"
#include "plan.h"
#include "program.h"
#include "prunnet.h"
#include "sections.h"
#include "sha256.h"

struct prunnet_model {
    uint8_t *file;
    uint64_t length, room;
    prun_header header;
    prun_program program;
    prun_plan plan;
    prun_picture_room pictures;
    double capacity; /* that is planned, or 0 */
    int checked;     /* sections whose checksums fit */
    int opened;
    prun_problem problem;
};

static const uint8_t magic[8] = {0x89, 'P', 'R', 'U', 'N', '\r', '\n', 0x1a};

static uint32_t header_length(const uint8_t *bytes)
{
    return bytes[8] | (uint32_t)bytes[9] << 8 | (uint32_t)bytes[10] << 16 | (uint32_t)bytes[11] << 24;
}

uint64_t prunnet_header_bytes(const void *bytes, size_t length)
{
    if (!bytes || length < PRUN_PREAMBLE || memcmp(bytes, magic, sizeof magic))
        return 0;
    return PRUN_PREAMBLE + (uint64_t)header_length(bytes);
}

static int read_header(prunnet_model *model)
{
    prun_problem *problem = &model->problem;
    uint64_t end = prunnet_header_bytes(model->file, (size_t)model->length);
    uint8_t digest[32];
    if (model->length < PRUN_PREAMBLE)
        return prun_fail(problem, PRUNNET_DAMAGED, "it is cut off: it ends at byte %d", (int64_t)model->length);
    if (!end)
        return prun_fail(problem, PRUNNET_DAMAGED, "it is no .prun file (prunnet.pack writes one)");
    if (end > model->length)
        return prun_fail(problem, PRUNNET_DAMAGED, "it is cut off or damaged: its header would end at byte %d of %d",
                         (int64_t)end, (int64_t)model->length);
    const uint8_t *text = model->file + PRUN_PREAMBLE;
    size_t length = (size_t)(end - PRUN_PREAMBLE);
    prun_sha256(text, length, digest);
    if (memcmp(digest, model->file + 12, sizeof digest))
        return prun_fail(problem, PRUNNET_DAMAGED, "it is damaged: its header does not match its checksum; fetch it again");
    int code = prun_header_read(&model->header, (const char *)text, length, problem);
    if (!code && model->header.program)
        code = prun_program_read(&model->program, &model->header, problem);
    return code;
}

/* Bytes beyond those there are; the room doubles, so that many small pieces cost no more than one. */
static int add(prunnet_model *model, const void *bytes, size_t length)
{
    if (length > model->room - model->length) {
        uint64_t room = model->length + length, twice = 2 * model->room;
        room = model->room && twice > room ? twice : room;
        uint8_t *found = prun_allocate_array(room, 1);
        if (!found)
            found = prun_allocate_array(room = model->length + length, 1);
        if (!found)
            return prun_fail(&model->problem, PRUNNET_MEMORY, "there is not enough memory for the file");
        if (model->length)
            memcpy(found, model->file, (size_t)model->length);
        prun_release(model->file);
        model->file = found;
        model->room = room;
    }
    if (length)
        memcpy(model->file + model->length, bytes, length);
    model->length += length;
    return 0;
}

int prunnet_open(prunnet_model **model, const void *bytes, size_t length)
{
    prunnet_model *opened = *model = prun_allocate(sizeof *opened);
    if (!opened)
        return PRUNNET_MEMORY;
    int code = bytes || !length ? add(opened, bytes, length) : prun_fail(&opened->problem, PRUNNET_STATE, "no bytes are given");
    if (!code)
        code = read_header(opened);
    opened->opened = !code;
    return code;
}

void prunnet_close(prunnet_model *model)
{
    if (!model)
        return;
    prun_plan_free(&model->plan);
    prun_picture_free(&model->pictures);
    prun_program_free(&model->program);
    prun_header_free(&model->header);
    prun_release(model->file);
    prun_release(model);
}

static int not_opened(prunnet_model *model)
{
    return prun_fail(&model->problem, PRUNNET_STATE, "no file is open");
}

static uint64_t end_of(const prunnet_model *model, int section)
{
    return model->header.sections[section].start + model->header.sections[section].bytes;
}

int prunnet_append(prunnet_model *model, const void *bytes, size_t length)
{
    if (!model->opened || (!bytes && length))
        return not_opened(model);
    uint64_t end = end_of(model, model->header.bands);
    if (length > end - model->length)
        return prun_fail(&model->problem, PRUNNET_DAMAGED, "it is damaged: %d bytes follow its last band",
                         (int64_t)(model->length + length - end));
    return add(model, bytes, length);
}

static int find_band(prunnet_model *model, double capacity, int *band)
{
    const prun_header *header = &model->header;
    int held = 0;
    while (held < header->bands && end_of(model, held + 1) <= model->length)
        held++;
    if (!held)
        return prun_fail(&model->problem, PRUNNET_CAPACITY,
                         "it is cut off before the end of its first band; append bytes up to %d", (int64_t)end_of(model, 1));
    *band = held - 1;
    if (capacity == 0)
        return 0;
    for (*band = 0; *band < header->bands; ++*band)
        if (fabs(header->grid[*band] - capacity) <= 1e-9 * (header->grid[*band] > capacity ? header->grid[*band] : capacity))
            break;
    if (*band == header->bands)
        return prun_fail(&model->problem, PRUNNET_CAPACITY, "the file has no band that ends at %c; it has %d from %c to %c",
                         capacity, (int64_t)header->bands, header->grid[0], header->grid[header->bands - 1]);
    if (*band >= held)
        return prun_fail(&model->problem, PRUNNET_CAPACITY, "it holds capacities up to %c; for %c append bytes %d to %d",
                         header->grid[held - 1], header->grid[*band], (int64_t)model->length,
                         (int64_t)end_of(model, *band + 1));
    return 0;
}

static int check_sections(prunnet_model *model, int band)
{
    for (; model->checked <= band + 1; model->checked++) {
        const prun_section *section = model->header.sections + model->checked;
        uint8_t digest[32];
        prun_sha256(model->file + section->start, (size_t)section->bytes, digest);
        if (memcmp(digest, section->sha256, sizeof digest)) {
            model->length = section->start; /* so that its bytes can be appended again */
            return prun_fail(&model->problem, PRUNNET_DAMAGED,
                             "it is damaged: section %d does not match its checksum; fetch bytes %d to %d again",
                             (int64_t)model->checked, (int64_t)section->start, (int64_t)(section->start + section->bytes));
        }
    }
    return 0;
}

int prunnet_plan(prunnet_model *model, double capacity, int threads)
{
    int band = 0, code;
    if (!model->opened)
        return not_opened(model);
    if (!(capacity >= 0 && capacity <= 1))
        return prun_fail(&model->problem, PRUNNET_CAPACITY,
                         "capacity must be in (0, 1], the fraction of connections kept");
    if (model->length > end_of(model, model->header.bands))
        return prun_fail(&model->problem, PRUNNET_DAMAGED, "it is damaged: %d bytes follow its last band",
                         (int64_t)(model->length - end_of(model, model->header.bands)));
    if (!model->header.program)
        return prun_fail(&model->problem, PRUNNET_DAMAGED,
                         "it holds no program to run; pack it with runtime=True (prunnet pack --runtime)");
    if ((code = find_band(model, capacity, &band)) || (code = check_sections(model, band)))
        return code;
    int count = model->header.layers + model->header.statistics + model->header.rest;
    float **tensors = prun_allocate_array((uint64_t)count, sizeof *tensors);
    if (!tensors)
        return prun_fail(&model->problem, PRUNNET_MEMORY, "there is not enough memory for its tensors");
    prun_plan plan = {0};
    code = prun_decode_tensors(&model->header, model->file, band, tensors, &model->problem);
    if (!code)
        code = prun_plan_make(&plan, &model->header, &model->program, tensors, threads, &model->problem);
    if (!code)
        code = prun_picture_prepare(&model->pictures, &model->header.preprocessing, &model->problem);
    for (int i = 0; i < count; i++)
        prun_release(tensors[i]);
    prun_release(tensors);
    if (code) {
        prun_plan_free(&plan);
        return code;
    }
    prun_plan_free(&model->plan);
    model->plan = plan;
    model->capacity = model->header.grid[band];
    return 0;
}

static int embed(prunnet_model *model, float *embedding)
{
    const prun_plan *plan = &model->plan;
    prun_plan_run(plan);
    const float *raw = prun_plan_memory(plan, &plan->embedding);
    int64_t stride = plan->embedding.stride[1];
    double squares = 0;
    for (int i = 0; i < model->header.embedding_dim; i++)
        squares += (double)raw[i * stride] * raw[i * stride];
    if (!(squares <= DBL_MAX))
        return prun_fail(&model->problem, PRUNNET_IMAGE, "the embedding is not finite");
    double length = squares > 1e-24 ? sqrt(squares) : 1e-12;
    for (int i = 0; i < model->header.embedding_dim; i++)
        embedding[i] = (float)(raw[i * stride] / length);
    return 0;
}

static int not_planned(prunnet_model *model)
{
    return prun_fail(&model->problem, PRUNNET_STATE, "no capacity is planned");
}

int prunnet_embed_picture(prunnet_model *model, const uint8_t *pixels, int width, int height, int channels, float *embedding)
{
    if (!model->capacity)
        return not_planned(model);
    const prun_view *image = &model->plan.image;
    int code = prun_picture_read(&model->pictures, &model->header.preprocessing, pixels, width, height, channels,
                                 prun_plan_memory(&model->plan, image), pk_pitch((size_t)image->pixels), &model->problem);
    return code ? code : embed(model, embedding);
}

int prunnet_embed_image(prunnet_model *model, const float *image, float *embedding)
{
    if (!model->capacity)
        return not_planned(model);
    const prun_view *view = &model->plan.image;
    float *memory = prun_plan_memory(&model->plan, view);
    size_t pixels = (size_t)view->pixels, pitch = pk_pitch(pixels);
    for (size_t c = 0; c < (size_t)view->planes; c++)
        memcpy(memory + c * pitch, image + c * pixels, pixels * sizeof(float));
    return embed(model, embedding);
}

int prunnet_preprocess(prunnet_model *model, const uint8_t *pixels, int width, int height, int channels, float *image)
{
    if (!model->capacity)
        return not_planned(model);
    return prun_picture_read(&model->pictures, &model->header.preprocessing, pixels, width, height, channels, image,
                             (size_t)model->plan.image.pixels, &model->problem);
}

const char *prunnet_message(const prunnet_model *model)
{
    return model ? model->problem.text : "there is not enough memory";
}

const char *prunnet_family_id(const prunnet_model *model)
{
    return model->header.family_id;
}

double prunnet_capacity(const prunnet_model *model)
{
    return model->capacity;
}

int prunnet_embedding_dim(const prunnet_model *model)
{
    return model->header.embedding_dim;
}

int prunnet_input_size(const prunnet_model *model, int dimension)
{
    return dimension >= 0 && dimension < 3 ? model->header.preprocessing.input_size[dimension] : 0;
}

int prunnet_bands(const prunnet_model *model)
{
    return model->opened ? model->header.bands : 0;
}

double prunnet_band_capacity(const prunnet_model *model, int band)
{
    return band >= 0 && band < prunnet_bands(model) ? model->header.grid[band] : 0;
}

uint64_t prunnet_band_end(const prunnet_model *model, int band)
{
    return band >= 0 && band < prunnet_bands(model) ? end_of(model, band + 1) : 0;
}

uint64_t prunnet_bytes(const prunnet_model *model)
{
    return model->length;
}

uint64_t prunnet_arena_bytes(const prunnet_model *model)
{
    return model->plan.arena_bytes;
}
