/* The next records of a buffer for the Spark decoder: where their parts lie;
 * spark/decode_chase.py and decode_heads.py do the same.
 *
 * It stops, without a verdict, before the first record that is not whole, not sound or not ordinary
 * (another magic number, an IPv6 host); what that one is Python finds out.
 */
#include "rows.h"

enum {
    SYS_FLAG_AT = 36,
    BODY_SIZE_AT = 84,
    HOSTS_V6 = 0x30
};

#define MAGIC_V1 0xDAA320A7u

/* In: everything. Out: `end`, `flags` and what the pointers name. Mirrored by decode_native.py. */
typedef struct {
    const uint8_t *bytes;
    int64_t at;      /* where the first record begins */
    int64_t limit;   /* where none begins any more */
    int64_t size;    /* of the bytes; a record may end behind `limit` */
    int64_t *begins; /* for `count_max` records: where they begin */
    int64_t *bodies; /* where their bodies end */
    int64_t *topics; /* where their topics end */
    int64_t *ends;   /* where they end */
    int64_t count_max;
    int64_t end;     /* where the records end that were taken */
    int64_t flags;   /* their sys flags in one */
} rows;
MIRRORED(rows);

/* Following sizes waits for memory at each record. Reading through does not, and brings it all. */
static uint8_t touch(const uint8_t *from, const uint8_t *to)
{
    uint8_t sum = 0;
    for (; from < to; from += LINE)
        sum ^= *(const volatile uint8_t *)from;
    return sum;
}

int read_parts(const uint8_t *record, int64_t left, parts *found)
{
    if (left < RECORD_LEAST)
        return 0;
    int64_t size = get32(record);
    found->flags = get32(record + SYS_FLAG_AT);
    if (get32(record + 4) != MAGIC_V1 || size < RECORD_LEAST || size > left ||
        found->flags & HOSTS_V6)
        return 0;
    int64_t body_to = RECORD_HEAD + (int64_t)get32(record + BODY_SIZE_AT);
    if (body_to + 3 > size)
        return 0;
    int64_t topic_to = body_to + 1 + record[body_to];
    if (topic_to + 2 > size || topic_to + 2 + get16(record + topic_to) != size)
        return 0;
    found->size = size;
    found->body_to = body_to;
    found->topic_to = topic_to;
    return 1;
}

/* How many records were taken. */
int64_t epq_rows(rows *r)
{
    int64_t count = 0, at = r->at, limit = r->limit < r->size ? r->limit : r->size;
    uint32_t flags = 0;
    parts its;
    touch(r->bytes + at, r->bytes + limit);
    while (count < r->count_max && at < limit && read_parts(r->bytes + at, r->size - at, &its)) {
        r->begins[count] = at;
        r->bodies[count] = at + its.body_to;
        r->topics[count] = at + its.topic_to;
        flags |= its.flags;
        at += its.size;
        r->ends[count++] = at;
    }
    r->end = at;
    r->flags = flags;
    return count;
}
