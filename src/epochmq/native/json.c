/* Reading a JSON header token by token. */
#include "json.h"

static void skip_space(cursor *c)
{
    while (c->at < c->end &&
           (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

/* The slow way of json_mark: what comes next is not `mark`, or blanks come first. */
int json_mark_behind_space(cursor *c, char mark)
{
    skip_space(c);
    if (c->at == c->end || *c->at != (uint8_t)mark)
        return 0;
    c->at++;
    return 1;
}

int json_at_end(cursor *c)
{
    skip_space(c);
    return c->at == c->end;
}

/* The value of a hexadecimal digit, -1 for none. */
static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of the four digits at `at`, -1 for none. */
static int32_t unit_at(const uint8_t *at)
{
    int32_t value = 0;
    for (int n = 0; n < 4; n++) {
        int part = digit(at[n]);
        if (part < 0)
            return -1;
        value = value << 4 | part;
    }
    return value;
}

static int escape_is_sound(const uint8_t *at, const uint8_t *end, int *width)
{
    if (at == end)
        return 0;
    *width = 1;
    if (*at != 'u')
        return *at && strchr("\"\\/bfnrt", *at) != NULL;
    *width = 5;
    if (end - at < 5)
        return 0;
    int32_t unit = unit_at(at + 1);
    return unit >= 0 && (unit < 0xD800 || unit > 0xDFFF); /* pairs of surrogates are Python's */
}

/* Bytes of a string that mean nothing but themselves: not a quote, a backslash, a control character
 * or a part of a longer code point. */
static const uint8_t plain[256] = {
#define P4 1, 1, 1, 1
#define P16 P4, P4, P4, P4
    [0x20] = 1, 1, 0, 1, P4, P4, P4, P16, P16, /* to 0x4F; 0x22 is the quote */
    P4, P4, P4, 0, 1, 1, 1, P16, P16 /* to 0x7F; 0x5C is the backslash */
};

/* The first byte from `at` on that is not plain, or `end`. */
static const uint8_t *skip_plain(const uint8_t *at, const uint8_t *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    /* Eight bytes a step: the high bit of each byte that is not plain. A borrow can mark bytes that
     * follow such a byte in vain, never one before it. */
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    for (uint64_t eight; end - at >= 8; at += 8) {
        memcpy(&eight, at, 8);
        uint64_t quote = eight ^ ones * '"', backslash = eight ^ ones * '\\';
        uint64_t found = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
                         ((eight - ones * 0x20) & ~eight) | eight;
        if (found &= highs)
            return at + (__builtin_ctzll(found) >> 3);
    }
#endif
    while (at < end && plain[*at])
        at++;
    return at;
}

/* The rest of a string, whose first byte that is not plain is at `at` and is not its closing quote. */
static int rest_of_string(cursor *c, const uint8_t *at, span *text, int *escaped)
{
    const uint8_t *end = c->end;
    int wide = 0;
    for (;; at = skip_plain(at, end)) {
        if (at == end || *at < 0x20)
            return 0;
        uint8_t byte = *at++;
        if (byte == '"')
            break;
        if (byte != '\\') {
            wide = 1;
            continue;
        }
        int width;
        if (!escape_is_sound(at, end, &width))
            return 0;
        at += width;
        *escaped = 1;
    }
    c->at = at;
    text->size = at - 1 - text->at;
    return !wide || utf8_is_sound(text->at, text->size);
}

/* A string's bytes between its quotes, sound UTF-8; `escaped` when json_unescape is needed. */
int json_string(cursor *c, span *text, int *escaped)
{
    *escaped = 0;
    if (!json_mark(c, '"'))
        return 0;
    text->at = c->at;
    const uint8_t *at = skip_plain(c->at, c->end);
    if (at == c->end || *at != '"')
        return rest_of_string(c, at, text, escaped);
    text->size = at - text->at;
    c->at = at + 1;
    return 1;
}

/* A whole number in plain digits, without needless zeros. */
int json_text_int(span text, int64_t low, int64_t high, int64_t *value)
{
    const uint8_t *at = text.at, *end = text.at + text.size;
    int negative = at < end && *at == '-';
    uint64_t number = 0, most = (uint64_t)INT64_MAX;
    at += negative;
    if (at == end || end - at > 19 || (*at == '0' && (negative || end - at > 1)))
        return 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        number = number * 10 + (uint64_t)(*at - '0'); /* 19 digits stay below 2^64 */
    }
    if (number > most)
        return 0;
    *value = negative ? -(int64_t)number : (int64_t)number;
    return *value >= low && *value <= high;
}

/* The same, not in quotes. */
int json_int(cursor *c, int64_t low, int64_t high, int64_t *value)
{
    skip_space(c);
    span text = {c->at, 0};
    while (c->at < c->end && (*c->at == '-' || (*c->at >= '0' && *c->at <= '9')))
        c->at++;
    text.size = c->at - text.at;
    return json_text_int(text, low, high, value);
}

/* `text`, which json_string took, without its escapes; how many bytes, never more than it has. */
int64_t json_unescape(span text, uint8_t *to)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const uint8_t *at = text.at, *end = text.at + text.size;
    uint8_t *begin = to;
    while (at < end) {
        const uint8_t *stop = memchr(at, '\\', (size_t)(end - at));
        if (!stop)
            stop = end;
        to = copy(to, at, stop - at);
        at = stop;
        if (at == end)
            break;
        if (at[1] != 'u') {
            *to++ = (uint8_t)bytes[strchr(names, at[1]) - names];
            at += 2;
            continue;
        }
        uint32_t point = (uint32_t)unit_at(at + 2);
        if (point < 0x80)
            *to++ = (uint8_t)point;
        else if (point < 0x800) {
            *to++ = (uint8_t)(0xC0 | point >> 6);
            *to++ = (uint8_t)(0x80 | (point & 0x3F));
        } else {
            *to++ = (uint8_t)(0xE0 | point >> 12);
            *to++ = (uint8_t)(0x80 | (point >> 6 & 0x3F));
            *to++ = (uint8_t)(0x80 | (point & 0x3F));
        }
        at += 6;
    }
    return to - begin;
}
