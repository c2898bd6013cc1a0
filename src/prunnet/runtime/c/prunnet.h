/* Run a subnetwork from the first bytes of a .prun file: picture in, L2-normalised embedding out.

     prunnet_model *model;
     if (prunnet_open(&model, bytes, length) || prunnet_plan(model, 0.1, 1))
         puts(prunnet_message(model));
     float *embedding = malloc(prunnet_embedding_dim(model) * sizeof(float));
     prunnet_embed_picture(model, rgb, width, height, 3, embedding);
     prunnet_close(model);

   Every int that is returned is 0, or one of the codes below; prunnet_message() then says in one line what is wrong.
   A model may be used by one thread at a time. */
#ifndef PRUNNET_H
#define PRUNNET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define PRUNNET_API __declspec(dllexport)
#else
#define PRUNNET_API __attribute__((visibility("default")))
#endif

enum {
    PRUNNET_OK = 0,
    PRUNNET_DAMAGED = 1,  /* the file is damaged, foreign or too new, or holds no program */
    PRUNNET_CAPACITY = 2, /* a capacity that is not on the grid, or whose bytes are not there yet */
    PRUNNET_IMAGE = 3,    /* a picture that the network cannot take, or an embedding that is not finite */
    PRUNNET_MEMORY = 4,   /* there is not enough memory */
    PRUNNET_STATE = 5     /* something was asked for before it was planned */
};

typedef struct prunnet_model prunnet_model;

/* How many bytes magic, checksum and header take, told by the first 44 of a file; 0 if it is no .prun file. */
PRUNNET_API uint64_t prunnet_header_bytes(const void *bytes, size_t length);

/* A model from the first bytes of a file, which are copied: at least the whole header. *model is to be closed even if
   opening fails; it is NULL only where there is no memory for it. */
PRUNNET_API int prunnet_open(prunnet_model **model, const void *bytes, size_t length);
PRUNNET_API void prunnet_close(prunnet_model *model);

/* Add the bytes that follow in the file. */
PRUNNET_API int prunnet_append(prunnet_model *model, const void *bytes, size_t length);

/* Decode the subnetwork at `capacity` (0: the largest that is there) and prepare to run it on `threads` threads.
   Nothing is allocated afterwards but, for pictures larger than any before, room to resize them. On failure the model
   stays as it was planned before. */
PRUNNET_API int prunnet_plan(prunnet_model *model, double capacity, int threads);

/* Embed a picture: `height` rows of `width` pixels of `channels` bytes (1 grey, 3 RGB, 4 RGBA, alpha ignored). */
PRUNNET_API int prunnet_embed_picture(prunnet_model *model, const uint8_t *pixels, int width, int height, int channels,
                                      float *embedding);

/* Embed an image that is already resized and normalised, [C, H, W]. */
PRUNNET_API int prunnet_embed_image(prunnet_model *model, const float *image, float *embedding);

/* What the picture becomes before it enters the network, [C, H, W]. */
PRUNNET_API int prunnet_preprocess(prunnet_model *model, const uint8_t *pixels, int width, int height, int channels,
                                   float *image);

PRUNNET_API const char *prunnet_message(const prunnet_model *model);
PRUNNET_API const char *prunnet_family_id(const prunnet_model *model);
PRUNNET_API double prunnet_capacity(const prunnet_model *model); /* 0 before it is planned */
PRUNNET_API int prunnet_embedding_dim(const prunnet_model *model);
PRUNNET_API int prunnet_input_size(const prunnet_model *model, int dimension); /* 0 channels, 1 height, 2 width */
PRUNNET_API int prunnet_bands(const prunnet_model *model);
PRUNNET_API double prunnet_band_capacity(const prunnet_model *model, int band);
/* The prefix of the file up to here is the subnetwork at the capacity of the band. */
PRUNNET_API uint64_t prunnet_band_end(const prunnet_model *model, int band);
PRUNNET_API uint64_t prunnet_bytes(const prunnet_model *model); /* of the file that are there */
PRUNNET_API uint64_t prunnet_arena_bytes(const prunnet_model *model);

#ifdef __cplusplus
}
#endif
#endif
