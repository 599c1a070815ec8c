/* Just enough JSON for a send's header, and strict: what is unusual is Python's to read. */
#ifndef EPOCHMQ_JSON_H
#define EPOCHMQ_JSON_H

#include "native.h"

typedef struct {
    const uint8_t *at, *end;
} cursor;

int json_mark(cursor *c, char mark);
int json_at_end(cursor *c);
int json_string(cursor *c, span *text, int *escaped);
int json_int(cursor *c, int64_t low, int64_t high, int64_t *value);
int json_text_int(span text, int64_t low, int64_t high, int64_t *value);
int64_t json_unescape(span text, uint8_t *to);

#endif
