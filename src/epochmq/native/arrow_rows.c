/* The Spark decoder: finds and checks ordinary records, and writes all wanted columns of a record in one pass
 * while the record is in the cache. arrow_columns.c and arrow_properties.c write the columns;
 * spark/decode_heads.py does the same with numpy.
 *
 * The decoder stops before the first record that is unusual or has no room; Python decides what to do.
 */
#include "arrow_rows.h"

enum { AHEAD = 8192 /* memory is requested so many bytes ahead */ };

/* What is told of the buffers, for their sizes; mirrored by spark/decode_native.py. */
typedef struct {
    int64_t one; /* always 1 */
    int64_t rows;
    int64_t pairs;
    int64_t bits; /* bytes that have a bit a row */
    int64_t body;
    int64_t hosts[2];
    int64_t topic;
    int64_t names;
    int64_t values;
    int64_t found[FOUND];
    int64_t raw;
    int64_t nulls[FOUND];
} sizes;

/* In: everything but `end`, `flags`, `sizes`, `count` and `nulls`. Of `columns` and `pairs` the places of
 * buffers are used, which have room for `rows_max` rows as they say; and for `body_max` bytes of
 * bodies, `text_max` of properties and a block more. Mirrored by spark/decode_native.py. */
typedef struct {
    const uint8_t *bytes;
    int64_t at;         /* where the first record begins */
    int64_t limit;      /* where none begins any more */
    int64_t size;       /* of the bytes; a record may end behind `limit` */
    int64_t rows_max;
    int64_t skip_flags; /* a record that has one of them is no row */
    int64_t stop_flags; /* a record that has one of these is not for this */
    int64_t first;      /* queue offset; what is before it is no row */
    int64_t last;       /* and neither is what is behind this */
    int64_t body_max;
    int64_t text_max;
    int64_t end;        /* where the records end that were taken or skipped */
    int64_t flags;      /* of those that were taken, in one */
    cells raw;          /* the text of properties as it is */
    sizes sizes;
    columns columns;
    pairs pairs;
} whole;
MIRRORED(whole);

/* 0 when it is not whole, not sound or no record; `left` are the bytes from its begin on. */
static int read_parts(const uint8_t *record, int64_t left, parts *found)
{
    if (left < RECORD_LEAST)
        return 0;
    int64_t size = get32(record);
    uint32_t magic = get32(record + MAGIC_AT), flags = get32(record + SYS_FLAG_AT);
    int wide = magic == MAGIC_V2; /* its topic's length has two bytes */
    found->born_more = flags & BORN_V6 ? V6_MORE : 0;
    found->store_more = flags & STORE_V6 ? V6_MORE : 0;
    int64_t more = found->born_more + found->store_more;
    if ((magic != MAGIC_V1 && !wide) || size < RECORD_LEAST + more || size > left)
        return 0;
    int64_t body_at = RECORD_HEAD + more, body_to = body_at + get32(record + body_at - 4);
    if (body_to + 3 > size)
        return 0;
    int64_t topic_at = body_to + 1 + wide;
    int64_t topic_to = topic_at + (wide ? get16(record + body_to) : record[body_to]);
    if (topic_to + 2 > size || topic_to + 2 + get16(record + topic_to) != size)
        return 0;
    found->size = size;
    found->body_at = body_at;
    found->body_to = body_to;
    found->topic_at = topic_at;
    found->topic_to = topic_to;
    found->flags = flags;
    return 1;
}

/* Whether it is a record that becomes no row. A record to stop at may be several messages. */
static int is_left_out(const whole *t, const uint8_t *record, uint32_t flags)
{
    int64_t offset = get_i64(record + QUEUE_OFFSET_AT);
    return flags & t->skip_flags ||
           (!(flags & t->stop_flags) && (offset < t->first || offset > t->last));
}

static int put_raw(const whole *t, int64_t row, span text)
{
    if (!utf8_is_sound(text.at, text.size))
        return 0;
    copy(t->raw.data + t->raw.bounds[row], text.at, text.size);
    t->raw.bounds[row + 1] = (int32_t)(t->raw.bounds[row] + text.size);
    return 1;
}

static int64_t text_of(const int32_t *bounds, int64_t count) { return bounds ? bounds[count] : 0; }

static void tell(whole *t, int64_t rows)
{
    const columns *c = &t->columns;
    pairs *p = &t->pairs;
    sizes *s = &t->sizes;
    s->one = 1;
    s->rows = rows;
    s->pairs = p->count;
    s->bits = (rows + 7) / 8;
    s->body = text_of(c->body.bounds, rows);
    for (int n = 0; n < 2; n++)
        s->hosts[n] = text_of(c->hosts[n].bounds, rows);
    s->topic = text_of(c->topic.bounds, rows);
    s->names = text_of(p->bounds ? p->name_bounds : NULL, p->count);
    s->values = text_of(p->bounds ? p->value_bounds : NULL, p->count);
    s->raw = text_of(t->raw.bounds, rows);
    for (int n = 0; n < FOUND; n++) {
        s->found[n] = text_of(p->found[n].bounds, rows);
        /* There were as many as there is room for, as long as nobody knew better. */
        s->nulls[n] = p->found[n].bounds ? p->found[n].nulls - (t->rows_max - rows) : 0;
    }
}

static int has_pairs(const pairs *p)
{
    return p->bounds || p->found[0].bounds || p->found[1].bounds || p->found[2].bounds;
}

/* How many records were taken. */
int64_t epq_whole(whole *t)
{
    columns *c = &t->columns;
    column_work work;
    shape names;
    int64_t rows = 0, at = t->at, limit = t->limit < t->size ? t->limit : t->size;
    int64_t body_room = t->body_max, text_room = t->text_max, asked = at;
    int wants_pairs = has_pairs(&t->pairs);

    c->rows = t->pairs.rows = t->rows_max;
    t->pairs.limit = t->bytes + t->size;
    t->flags = 0;
    columns_begin(c, &work);
    pairs_begin(&t->pairs, &names);
    if (t->raw.bounds)
        t->raw.bounds[0] = 0;
    while (rows < t->rows_max && at < limit) {
        const uint8_t *record = t->bytes + at;
        parts its;
        if (!read_parts(record, t->size - at, &its))
            break;
        int64_t until = at + its.size + AHEAD;
        for (until = until < t->size ? until : t->size; asked < until; asked += LINE)
            __builtin_prefetch(t->bytes + asked);
        int64_t body = its.body_to - its.body_at;
        span text = {record + its.topic_to + 2, its.size - its.topic_to - 2};
        if (is_left_out(t, record, its.flags)) {
            at += its.size;
            continue;
        }
        if (its.flags & t->stop_flags || (c->body.bounds && body > body_room) || text.size > text_room ||
            !columns_put(c, &work, rows, record, &its) ||
            (t->raw.bounds && !put_raw(t, rows, text)) ||
            (wants_pairs && !pairs_put(&t->pairs, &names, rows, record, &its)))
            break;
        t->flags |= its.flags;
        body_room -= body;
        text_room -= text.size;
        at += its.size;
        rows++;
    }
    c->rows = rows;
    columns_end(c);
    t->end = at;
    tell(t, rows);
    return rows;
}
