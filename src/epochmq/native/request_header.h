/* The JSON header of a request; each of its extFields is read by a function for that kind of request. */
#ifndef EPOCHMQ_REQUEST_HEADER_H
#define EPOCHMQ_REQUEST_HEADER_H

#include "json.h"

typedef struct {
    int64_t code, flag, opaque, version;
} request_head;

/* Reads one of the extFields into `into`; all values are texts. 0: not for the native code. */
typedef int field_reader(void *into, span name, span value, int escaped);

/* Inline, so that the compiler knows the size of a literal. */
static inline int is_name(span text, const char *name)
{
    size_t size = strlen(name);
    return text.size == (int64_t)size && memcmp(text.at, name, size) == 0;
}

int read_head(span header, request_head *head, field_reader *read_field, void *into);

#endif
