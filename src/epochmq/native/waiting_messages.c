/* Reads records of waiting messages: half messages, delayed messages, messages for a time. */
#include "send_turn.h"

/* Whether the record at `s` is whole, ordinary and sound; its topic is behind its body. */
int read_stored(const piece *log, const source *s, stored *r)
{
    if (s->offset < log->start || s->size < RECORD_LEAST || s->offset > log->end ||
        s->size > log->end - s->offset)
        return 0;
    const uint8_t *at = r->at = log->at + (s->offset - log->start), *end = at + s->size;
    if (get32(at) != (uint64_t)s->size || get32(at + MAGIC_AT) != MAGIC_V1 ||
        get_i64(at + OFFSET_AT) != s->offset || get32(at + SYS_FLAG_AT) & V6_HOSTS)
        return 0;
    r->body.at = at + RECORD_HEAD;
    r->body.size = get32(at + BODY_SIZE_AT);
    if (r->body.size < 1 || r->body.size > s->size - RECORD_LEAST)
        return 0;
    const uint8_t *name = r->body.at + r->body.size;
    if (end - name < 3 + name[0])
        return 0;
    r->text.at = name + 1 + name[0] + 2;
    r->text.size = get16(r->text.at - 2);
    return r->text.size && r->text.size == end - r->text.at &&
           crc_of(r->body.at, (size_t)r->body.size) == get32(at + CRC_AT) &&
           read_properties(r->text, &r->found) && !r->found.sink;
}

/* When a message of the timer topic may go out: timed.py, due_wall; -1 for one that is not ordinary. */
int64_t due_of(const stored *r)
{
    const properties *found = &r->found;
    const int64_t out = digits_of(found->out_ms, 15), store = get_i64(r->at + STORE_TIME_AT);
    int64_t exact = out + 1, asked = 0;
    if (out < 0 || found->rolled || store < 0 || store > INT64_MAX / 4)
        return -1;
    if (found->delay_sec.size) {
        asked = digits_of(found->delay_sec, 14);
        exact = store + 1000 * asked;
    } else if (found->delay_ms.size) {
        asked = digits_of(found->delay_ms, 15);
        exact = store + asked;
    } else if (found->deliver_ms.size)
        exact = asked = digits_of(found->deliver_ms, 15);
    if (asked < 0)
        return -1;
    if (exact > out + 1000)
        exact = out + 1000;
    return exact > out ? exact : out + 1;
}
