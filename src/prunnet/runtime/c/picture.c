#include "picture.h"

#include "exact.h"
#include "prunnet.h"

enum { PRECISION = 22, LARGEST_SIDE = 1 << 16 };

enum { NEAREST, BILINEAR, BICUBIC, BOX, HAMMING, LANCZOS };

static double sinc(double x)
{
    double angle = x * 3.14159265358979323846;
    return x == 0 ? 1 : sin(angle) / angle;
}

static double filter(int kind, double x)
{
    if (kind == BOX)
        return x > -0.5 && x <= 0.5;
    x = fabs(x);
    switch (kind) {
    case BILINEAR:
        return x < 1 ? 1 - x : 0;
    case HAMMING:
        return x == 0 ? 1 : x < 1 ? sinc(x) * (0.54 + 0.46 * cos(x * 3.14159265358979323846)) : 0;
    case BICUBIC:
        return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
    default:
        return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    }
}

static double support_of(int kind)
{
    static const double supports[] = {[NEAREST] = 0, [BILINEAR] = 1, [BICUBIC] = 2, [BOX] = 0.5, [HAMMING] = 1, [LANCZOS] = 3};
    return supports[kind];
}

/* How one side is resized and cropped: `to` pixels, of which `crop` from `start` on are wanted (start < 0: padded). */
typedef struct {
    int from, to, crop, start;
    int32_t *first, *count, *weights; /* per wanted pixel: the first it reads, how many, and their weights */
    int64_t widest;
} side;

static int64_t widest_window(const side *s, int interpolation)
{
    double scale = (double)s->from / s->to, support = support_of(interpolation) * (scale < 1 ? 1 : scale);
    return interpolation == NEAREST ? 1 : (int64_t)ceil(support) * 2 + 1;
}

static void nearest(side *s)
{
    double scale = (double)s->from / s->to, centre = scale * 0.5; /* summed up as Pillow does, to the same halves */
    for (int i = 0; i < s->crop; i++)
        s->count[i] = 0;
    for (int at = 0; at < s->to && at < s->start + s->crop; at++, centre += scale) {
        int i = at - s->start, from = (int)centre;
        if (i < 0)
            continue;
        s->count[i] = 1;
        s->first[i] = from < s->from ? from : s->from - 1;
        s->weights[i] = 1 << PRECISION;
    }
}

static int rounded_weight(double weight)
{
    double scaled = weight * (1 << PRECISION);
    return (int)(weight < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* The windows of one pixel after the other; weights sum to one before they are rounded. */
static void windows(side *s, int interpolation)
{
    double scale = (double)s->from / s->to, filter_scale = scale < 1 ? 1 : scale;
    double support = support_of(interpolation) * filter_scale;
    for (int i = 0; i < s->crop; i++) {
        int at = s->start + i;
        s->count[i] = 0;
        if (at < 0 || at >= s->to)
            continue;
        double centre = (at + 0.5) * scale, sum = 0;
        int low = (int)(centre - support + 0.5), high = (int)(centre + support + 0.5);
        low = low < 0 ? 0 : low;
        high = high > s->from ? s->from : high;
        int32_t *weights = s->weights + (int64_t)i * s->widest;
        if (high - low > s->widest)
            high = low + (int)s->widest;
        for (int x = low; x < high; x++)
            sum += filter(interpolation, (x - centre + 0.5) * (1 / filter_scale));
        for (int x = low; x < high; x++) {
            double weight = filter(interpolation, (x - centre + 0.5) * (1 / filter_scale));
            weights[x - low] = rounded_weight(sum != 0 ? weight / sum : weight);
        }
        s->first[i] = low;
        s->count[i] = high - low;
    }
}

static uint8_t clipped(int32_t sum)
{
    int32_t value = sum >> PRECISION;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* A row of the picture in the channels of the network. */
static void take_row(const uint8_t *pixels, int width, int channels, int wanted, uint8_t *row)
{
    for (int x = 0; x < width; x++, pixels += channels) {
        uint8_t green = pixels[channels > 1 ? 1 : 0], blue = pixels[channels > 1 ? 2 : 0];
        if (wanted == 3) {
            row[3 * x] = pixels[0], row[3 * x + 1] = green, row[3 * x + 2] = blue;
        } else {
            row[x] = (uint8_t)((pixels[0] * 19595u + green * 38470u + blue * 7471u + 0x8000u) >> 16);
        }
    }
}

static void resize_row(const side *s, const uint8_t *row, int channels, uint8_t *out)
{
    for (int i = 0; i < s->crop; i++) {
        const int32_t *weights = s->weights + i * s->widest;
        const uint8_t *from = row + (int64_t)s->first[i] * channels;
        for (int c = 0; c < channels; c++) {
            int32_t sum = 1 << (PRECISION - 1);
            for (int k = 0; k < s->count[i]; k++)
                sum += from[k * channels + c] * weights[k];
            out[i * channels + c] = clipped(sum);
        }
    }
}

/* Add a row to every wanted row whose window it is in; `done` are those before, whose windows have ended. */
static void spread_row(const side *s, int y, const uint8_t *row, int values, int32_t *sums)
{
    for (int i = 0; i < s->crop; i++) {
        int32_t place = y - s->first[i];
        if (place < 0 || place >= s->count[i])
            continue;
        int32_t weight = s->weights[i * s->widest + place], *to = sums + (int64_t)i * values;
        for (int k = 0; k < values; k++)
            to[k] += row[k] * weight;
    }
}

/* Sizes, by timm's rules: the shorter side to input_size / crop_pct, or for a network that is not square the ratio of
   the side that is tighter; then a centre crop, of a black border where the picture is smaller. */

static int crop_start(int to, int crop)
{
    if (crop > to)
        return -((crop - to) / 2);
    return (int)prun_round_even((to - crop) / 2.0);
}

static int settle(const prun_preprocessing *told, int width, int height, side *across, side *down, int *interpolation)
{
    int rows = told->input_size[1], columns = told->input_size[2];
    double scaled_rows = floor(rows / told->crop_pct), scaled_columns = floor(columns / told->crop_pct);
    if (scaled_rows < 1 || scaled_columns < 1 || scaled_rows > LARGEST_SIDE || scaled_columns > LARGEST_SIDE)
        return -1;
    double to_width, to_height;
    *interpolation = told->interpolation;
    if (scaled_rows == scaled_columns) {
        double shorter = width < height ? width : height, longer = width < height ? height : width;
        double stretched = floor(scaled_rows * longer / shorter);
        to_width = width <= height ? scaled_rows : stretched;
        to_height = width <= height ? stretched : scaled_rows;
    } else {
        double by_height = height / scaled_rows, by_width = width / scaled_columns;
        double ratio = by_height < by_width ? by_height : by_width;
        to_width = prun_round_even(width / ratio);
        to_height = prun_round_even(height / ratio);
        *interpolation = BILINEAR; /* timm's ResizeKeepRatio is not told another */
    }
    if (to_width < 1 || to_height < 1 || to_width > INT32_MAX / 4 || to_height > INT32_MAX / 4)
        return -1;
    *across = (side){.from = width, .to = (int)to_width, .crop = columns, .start = crop_start((int)to_width, columns)};
    *down = (side){.from = height, .to = (int)to_height, .crop = rows, .start = crop_start((int)to_height, rows)};
    across->widest = widest_window(across, *interpolation);
    down->widest = widest_window(down, *interpolation);
    return 0;
}

static int enough(void **memory, uint64_t *room, uint64_t wanted, size_t size)
{
    if (*memory && *room >= wanted)
        return 1;
    void *found = prun_allocate_array(wanted, size);
    if (!found)
        return 0;
    prun_release(*memory);
    *memory = found;
    *room = wanted;
    return 1;
}

int prun_picture_prepare(prun_picture_room *room, const prun_preprocessing *told, prun_problem *problem)
{
    const int *size = told->input_size;
    uint64_t wanted = (uint64_t)size[0] * (uint64_t)size[1] * (uint64_t)size[2];
    uint64_t sides = 2 * ((uint64_t)size[1] + (uint64_t)size[2]), row = (uint64_t)size[2] * (uint64_t)size[0];
    if (size[0] != 1 && size[0] != 3)
        return 0; /* only preprocessed images can be given */
    uint64_t resized_room = 0;
    if (!enough((void **)&room->sums, &room->sums_room, wanted, sizeof *room->sums) ||
        !enough((void **)&room->first, &room->first_room, sides, sizeof *room->first) ||
        !enough((void **)&room->resized, &resized_room, row, 1))
        return prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for its images");
    return 0;
}

void prun_picture_free(prun_picture_room *room)
{
    prun_release(room->sums);
    prun_release(room->row);
    prun_release(room->resized);
    prun_release(room->weights);
    prun_release(room->first);
    memset(room, 0, sizeof *room);
}

static void normalise(const prun_preprocessing *told, const int32_t *sums, float *image, size_t pitch)
{
    int channels = told->input_size[0], pixels = told->input_size[1] * told->input_size[2];
    for (int c = 0; c < channels; c++) {
        float values[256], mean = (float)told->mean[c], std = (float)told->std[c];
        for (int v = 0; v < 256; v++)
            values[v] = ((float)v / 255.0f - mean) / std;
        for (int i = 0; i < pixels; i++)
            image[(size_t)c * pitch + (size_t)i] = values[clipped(sums[(int64_t)i * channels + c])];
    }
}

int prun_picture_read(prun_picture_room *room, const prun_preprocessing *told, const uint8_t *pixels, int width,
                      int height, int channels, float *image, size_t pitch, prun_problem *problem)
{
    int wanted = told->input_size[0], interpolation;
    side across, down;
    if (wanted != 1 && wanted != 3)
        return prun_fail(problem, PRUNNET_IMAGE,
                         "pictures have 1 or 3 channels, the network expects %d; give preprocessed images", (int64_t)wanted);
    if (!pixels || (channels != 1 && channels != 3 && channels != 4))
        return prun_fail(problem, PRUNNET_IMAGE, "a picture has 1, 3 or 4 channels; found %d", (int64_t)channels);
    if (width < 1 || height < 1 || width > LARGEST_SIDE || height > LARGEST_SIDE)
        return prun_fail(problem, PRUNNET_IMAGE, "a picture has sides from 1 to %d; found %d x %d", (int64_t)LARGEST_SIDE,
                         (int64_t)width, (int64_t)height);
    if (settle(told, width, height, &across, &down, &interpolation))
        return prun_fail(problem, PRUNNET_IMAGE, "a picture of %d x %d cannot be resized for this network", (int64_t)width,
                         (int64_t)height);
    uint64_t across_weights = (uint64_t)across.widest * (uint64_t)across.crop;
    uint64_t weights = across_weights + (uint64_t)down.widest * (uint64_t)down.crop;
    if (!room->sums || !enough((void **)&room->row, &room->row_room, (uint64_t)width * (uint64_t)wanted, 1) ||
        !enough((void **)&room->weights, &room->weights_room, weights, sizeof *room->weights))
        return prun_fail(problem, PRUNNET_MEMORY, "there is not enough memory for a picture of %d x %d", (int64_t)width,
                         (int64_t)height);
    across.first = room->first;
    across.count = across.first + across.crop;
    down.first = across.count + across.crop;
    down.count = down.first + down.crop;
    across.weights = room->weights;
    down.weights = room->weights + across_weights;
    if (interpolation == NEAREST)
        nearest(&across), nearest(&down);
    else
        windows(&across, interpolation), windows(&down, interpolation);
    int values = across.crop * wanted;
    for (int64_t i = 0; i < (int64_t)down.crop * values; i++)
        room->sums[i] = 1 << (PRECISION - 1);
    int from = height, to = 0;
    for (int i = 0; i < down.crop; i++)
        if (down.count[i]) {
            from = down.first[i] < from ? down.first[i] : from;
            to = down.first[i] + down.count[i] > to ? down.first[i] + down.count[i] : to;
        }
    for (int y = from; y < to; y++) {
        take_row(pixels + (size_t)y * (size_t)width * (size_t)channels, width, channels, wanted, room->row);
        resize_row(&across, room->row, wanted, room->resized);
        spread_row(&down, y, room->resized, values, room->sums);
    }
    normalise(told, room->sums, image, pitch);
    return 0;
}
