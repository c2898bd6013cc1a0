/* JSON (RFC 8259), strictly: valid UTF-8, nothing after the value, no deeper than 64. */
#ifndef PRUN_JSON_H
#define PRUN_JSON_H

#include "platform.h"

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_type;

typedef struct json_node {
    json_type type;
    int whole;         /* a number written without fraction and exponent, of at most 2^53 */
    uint32_t count;    /* of children */
    uint32_t key_size; /* of an entry of an object */
    const char *key;
    const char *text; /* of a string; not ended by 0 */
    uint32_t size;
    double number;
    struct json_node *first, *next;
} json_node;

typedef struct {
    json_node *nodes;
    char *strings;
} json_document;

/* The value that `text` is, or NULL and a reason; to be freed either way. */
const json_node *json_parse(json_document *document, const char *text, size_t length, const char **reason);
void json_free(json_document *document);

const json_node *json_entry(const json_node *object, const char *key); /* the last of that name, or NULL */
int json_key_is(const json_node *entry, const char *key);
int json_is_text(const json_node *node, const char *text);

#endif
