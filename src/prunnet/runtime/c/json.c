#include "json.h"

#include "exact.h"

enum { DEEPEST = 64, MOST_DIGITS = 19, LARGEST_EXPONENT = 60 };

typedef struct {
    const char *at, *end;
    json_node *node;
    char *string;
    const char *reason;
} parser;

static void blank(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
        p->at++;
}

static int wrong(parser *p, const char *reason)
{
    p->reason = reason;
    return -1;
}

static int take(parser *p, char expected)
{
    blank(p);
    if (p->at == p->end || *p->at != expected)
        return 0;
    p->at++;
    return 1;
}

static void put_utf8(parser *p, uint32_t point)
{
    if (point < 0x80) {
        *p->string++ = (char)point;
    } else if (point < 0x800) {
        *p->string++ = (char)(0xc0 | point >> 6);
        *p->string++ = (char)(0x80 | (point & 63));
    } else if (point < 0x10000) {
        *p->string++ = (char)(0xe0 | point >> 12);
        *p->string++ = (char)(0x80 | (point >> 6 & 63));
        *p->string++ = (char)(0x80 | (point & 63));
    } else {
        *p->string++ = (char)(0xf0 | point >> 18);
        *p->string++ = (char)(0x80 | (point >> 12 & 63));
        *p->string++ = (char)(0x80 | (point >> 6 & 63));
        *p->string++ = (char)(0x80 | (point & 63));
    }
}

static int hexadecimal(parser *p, uint32_t *value)
{
    if (p->end - p->at < 4)
        return -1;
    *value = 0;
    for (int i = 0; i < 4; i++) {
        char c = *p->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        *value = *value << 4 | (uint32_t)digit;
    }
    return 0;
}

static int escape(parser *p)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (p->at == p->end)
        return wrong(p, "a string has no end");
    char c = *p->at++;
    if (c == 'u') {
        uint32_t point, low;
        if (hexadecimal(p, &point))
            return wrong(p, "a string has an escape that is none");
        if (point >= 0xd800 && point < 0xdc00) {
            if (p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u')
                return wrong(p, "a string has half a character");
            p->at += 2;
            if (hexadecimal(p, &low) || low < 0xdc00 || low > 0xdfff)
                return wrong(p, "a string has half a character");
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        } else if (point >= 0xdc00 && point < 0xe000) {
            return wrong(p, "a string has half a character");
        }
        put_utf8(p, point);
        return 0;
    }
    const char *found = c ? strchr(names, c) : NULL;
    if (!found)
        return wrong(p, "a string has an escape that is none");
    *p->string++ = values[found - names];
    return 0;
}

static int utf8(parser *p)
{
    const unsigned char *at = (const unsigned char *)p->at;
    ptrdiff_t left = p->end - p->at;
    int more = at[0] < 0x80 ? 0 : at[0] >= 0xc2 && at[0] < 0xe0 ? 1 : (at[0] & 0xf0) == 0xe0 ? 2 : at[0] >= 0xf0 && at[0] < 0xf5 ? 3 : -1;
    if (more < 0 || left <= more)
        return wrong(p, "it is not UTF-8");
    for (int i = 1; i <= more; i++)
        if ((at[i] & 0xc0) != 0x80)
            return wrong(p, "it is not UTF-8");
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] > 0x8f))
        return wrong(p, "it is not UTF-8");
    memcpy(p->string, p->at, (size_t)more + 1);
    p->string += more + 1;
    p->at += more + 1;
    return 0;
}

static int string(parser *p, const char **text, uint32_t *size)
{
    *text = p->string;
    while (p->at < p->end && *p->at != '"') {
        if ((unsigned char)*p->at < 0x20)
            return wrong(p, "a string has a control character");
        if (*p->at == '\\') {
            p->at++;
            if (escape(p))
                return -1;
        } else if (utf8(p)) {
            return -1;
        }
    }
    if (p->at == p->end)
        return wrong(p, "a string has no end");
    p->at++;
    *size = (uint32_t)(p->string - *text);
    return 0;
}

static double in_decimal(uint64_t digits, long exponent)
{
    if (!digits)
        return 0;
    if (exponent > LARGEST_EXPONENT || exponent < -LARGEST_EXPONENT) { /* no number of a header that is used */
        double value = (double)digits;
        for (; exponent > 0 && value < DBL_MAX; exponent--)
            value *= 10;
        for (; exponent < 0 && value > 0; exponent++)
            value /= 10;
        return value;
    }
    prun_big over = prun_big_from(digits), under = prun_big_from(1);
    for (long i = 0; i < exponent; i++)
        prun_big_times(&over, 10);
    for (long i = 0; i < -exponent; i++)
        prun_big_times(&under, 10);
    return prun_quotient(over, under);
}

static int is_digit(const parser *p)
{
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

static int number(parser *p, json_node *node)
{
    int negative = *p->at == '-', used = 0, whole = 1;
    long exponent = 0;
    uint64_t digits = 0;
    p->at += negative;
    if (!is_digit(p))
        return wrong(p, "a value is none");
    if (*p->at == '0' && p->end - p->at > 1 && p->at[1] >= '0' && p->at[1] <= '9')
        return wrong(p, "a number begins with 0");
    for (; is_digit(p); p->at++) {
        if (digits && used >= MOST_DIGITS - 1)
            exponent++, whole = 0;
        else
            digits = 10 * digits + (uint64_t)(*p->at - '0'), used += digits > 0;
    }
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        whole = 0;
        if (!is_digit(p))
            return wrong(p, "a number ends with its point");
        for (; is_digit(p); p->at++)
            if (!digits || used < MOST_DIGITS - 1)
                digits = 10 * digits + (uint64_t)(*p->at - '0'), used += digits > 0, exponent--;
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        long told = 0;
        int below = 0;
        p->at++;
        whole = 0;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-'))
            below = *p->at++ == '-';
        if (!is_digit(p))
            return wrong(p, "a number has no exponent");
        for (; is_digit(p); p->at++)
            if (told < 100000)
                told = 10 * told + (*p->at - '0');
        exponent += below ? -told : told;
    }
    double value = in_decimal(digits, exponent);
    node->type = JSON_NUMBER;
    node->number = negative ? -value : value;
    node->whole = whole && digits <= (uint64_t)1 << 53;
    if (!(value <= DBL_MAX))
        return wrong(p, "a number is too large");
    return 0;
}

static int word(parser *p, const char *text)
{
    size_t size = strlen(text);
    if ((size_t)(p->end - p->at) < size || memcmp(p->at, text, size))
        return wrong(p, "a value is none");
    p->at += size;
    return 0;
}

static int value(parser *p, json_node *node, int depth);

static int children(parser *p, json_node *node, int depth)
{
    char closing = node->type == JSON_OBJECT ? '}' : ']';
    json_node **last = &node->first;
    if (depth == DEEPEST)
        return wrong(p, "it is nested too deeply");
    if (take(p, closing))
        return 0;
    do {
        json_node *child = p->node++;
        *last = child;
        last = &child->next;
        node->count++;
        if (node->type == JSON_OBJECT) {
            if (!take(p, '"'))
                return wrong(p, "an entry has no name");
            if (string(p, &child->key, &child->key_size))
                return -1;
            if (!take(p, ':'))
                return wrong(p, "an entry has no value");
        }
        if (value(p, child, depth + 1))
            return -1;
    } while (take(p, ','));
    return take(p, closing) ? 0 : wrong(p, "a list or object has no end");
}

static int value(parser *p, json_node *node, int depth)
{
    blank(p);
    if (p->at == p->end)
        return wrong(p, "it ends too early");
    switch (*p->at) {
    case '{':
    case '[':
        node->type = *p->at++ == '{' ? JSON_OBJECT : JSON_ARRAY;
        return children(p, node, depth);
    case '"':
        node->type = JSON_STRING;
        p->at++;
        return string(p, &node->text, &node->size);
    case 't':
        node->type = JSON_TRUE;
        return word(p, "true");
    case 'f':
        node->type = JSON_FALSE;
        return word(p, "false");
    case 'n':
        node->type = JSON_NULL;
        return word(p, "null");
    default:
        return number(p, node);
    }
}

const json_node *json_parse(json_document *document, const char *text, size_t length, const char **reason)
{
    size_t most = 2; /* every value but the first follows one of these */
    for (size_t i = 0; i < length; i++)
        most += text[i] == ',' || text[i] == '[' || text[i] == '{';
    document->nodes = NULL;
    document->strings = NULL;
    *reason = "there is not enough memory";
    if (length >= UINT32_MAX || most > SIZE_MAX / sizeof(json_node))
        return NULL;
    document->nodes = prun_allocate_array(most, sizeof(json_node));
    document->strings = prun_allocate(length + 1);
    if (!document->nodes || !document->strings)
        return NULL;
    parser p = {text, text + length, document->nodes + 1, document->strings, NULL};
    if (value(&p, document->nodes, 0)) {
        *reason = p.reason;
        return NULL;
    }
    blank(&p);
    if (p.at != p.end) {
        *reason = "something follows it";
        return NULL;
    }
    return document->nodes;
}

void json_free(json_document *document)
{
    prun_release(document->nodes);
    prun_release(document->strings);
    document->nodes = NULL;
    document->strings = NULL;
}

static int same(const char *text, uint32_t size, const char *other)
{
    return strlen(other) == size && !memcmp(text, other, size);
}

int json_key_is(const json_node *entry, const char *key)
{
    return same(entry->key, entry->key_size, key);
}

int json_is_text(const json_node *node, const char *text)
{
    return node->type == JSON_STRING && same(node->text, node->size, text);
}

const json_node *json_entry(const json_node *object, const char *key)
{
    const json_node *found = NULL;
    for (const json_node *entry = object->first; entry; entry = entry->next)
        if (json_key_is(entry, key))
            found = entry;
    return found;
}
