/* Just enough JSON for a send's header, and strict: what is unusual is Python's to read. */
#ifndef EPOCHMQ_JSON_H
#define EPOCHMQ_JSON_H

#include "native.h"

typedef struct {
    const uint8_t *at, *end;
} cursor;

int json_mark_behind_space(cursor *c, char mark);
int json_at_end(cursor *c);
int json_string(cursor *c, span *text, int *escaped);
int json_int(cursor *c, int64_t low, int64_t high, int64_t *value);
int json_text_int(span text, int64_t low, int64_t high, int64_t *value);
int64_t json_unescape(span text, uint8_t *to);

/* Take `mark` if it comes next, blanks before it too; 0 when it does not. */
static inline int json_mark(cursor *c, char mark)
{
    if (c->at < c->end && *c->at == (uint8_t)mark) {
        c->at++;
        return 1;
    }
    return json_mark_behind_space(c, mark);
}

#endif
