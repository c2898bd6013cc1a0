/* embed FILE CAPACITY IMAGE: the embedding of a preprocessed image of floats, a number a line. */
#include <stdio.h>
#include <stdlib.h>

#include "prunnet.h"

static void *read_all(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(2);
    *length = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*length);
    if (!bytes || fread(bytes, 1, *length, file) != *length)
        exit(2);
    fclose(file);
    return bytes;
}

int main(int count, char **arguments)
{
    size_t length, size;
    prunnet_model *model;
    if (count != 4)
        return 2;
    void *bytes = read_all(arguments[1], &length);
    float *image = read_all(arguments[3], &size);
    int code = prunnet_open(&model, bytes, length);
    if (!code)
        code = prunnet_plan(model, atof(arguments[2]), 1);
    int dim = prunnet_embedding_dim(model);
    float *embedding = malloc(((size_t)dim + 1) * sizeof *embedding);
    if (!code)
        code = prunnet_embed_image(model, image, embedding);
    for (int i = 0; !code && i < dim; i++)
        printf("%.9g\n", embedding[i]);
    if (code)
        printf("%s\n", prunnet_message(model));
    prunnet_close(model);
    free(embedding);
    free(image);
    free(bytes);
    return code;
}
