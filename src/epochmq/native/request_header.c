/* Reads the JSON header of a request. */
#include "request_header.h"

static int read_fields(cursor *c, field_reader *read_field, void *into)
{
    if (!json_mark(c, '{'))
        return 0;
    do {
        span name, value;
        int escaped;
        if (!json_string(c, &name, &escaped) || escaped || !json_mark(c, ':') ||
            !json_string(c, &value, &escaped) || !read_field(into, name, value, escaped))
            return 0;
    } while (json_mark(c, ','));
    return json_mark(c, '}');
}

/* The whole header. 0: not for the native code. */
int read_head(span header, request_head *head, field_reader *read_field, void *into)
{
    cursor c = {header.at, header.at + header.size};
    uint32_t seen = 0, bit;
    int escaped;
    span name, value;
    *head = (request_head){0};
    if (!json_mark(&c, '{'))
        return 0;
    do {
        if (!json_string(&c, &name, &escaped) || escaped || !json_mark(&c, ':'))
            return 0;
        if (is_name(name, "code")) {
            bit = 1;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &head->code))
                return 0;
        } else if (is_name(name, "extFields")) {
            bit = 2;
            if (!read_fields(&c, read_field, into))
                return 0;
        } else if (is_name(name, "flag")) {
            bit = 4;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &head->flag))
                return 0;
        } else if (is_name(name, "opaque")) {
            bit = 8;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &head->opaque))
                return 0;
        } else if (is_name(name, "version")) {
            bit = 16;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &head->version))
                return 0;
        } else if (is_name(name, "language")) {
            bit = 32;
            if (!json_string(&c, &value, &escaped))
                return 0;
        } else if (is_name(name, "serializeTypeCurrentRPC")) {
            bit = 64;
            if (!json_string(&c, &value, &escaped))
                return 0;
        } else
            return 0;
        if (seen & bit)
            return 0;
        seen |= bit;
    } while (json_mark(&c, ','));
    return json_mark(&c, '}') && json_at_end(&c) && (seen & 11) == 11;
}
