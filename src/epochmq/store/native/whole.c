/* Whole batches of ordinary records for the Spark decoder: found, checked and written into all wanted
 * columns in one pass, while a record is in the cache; the bytes behind it are asked for meanwhile.
 * rows.c, columns.c and pairs.c have the parts.
 *
 * It stops, without a verdict, before the first record that is not for it, or has no room.
 */
#include "rows.h"

enum { AHEAD = 8192 }; /* so many bytes ahead memory is asked for */

/* What is told of the buffers, for their sizes; mirrored by decode_whole.py. */
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

/* In: everything but `end`, `sizes`, `count` and `nulls`. Of `columns` and `pairs` the places of
 * buffers are used, which have room for `rows_max` rows as they say; and for `body_max` bytes of
 * bodies, `text_max` of properties and a block more. Mirrored by decode_whole.py. */
typedef struct {
    int64_t at;         /* where the first record begins */
    int64_t limit;      /* where none begins any more */
    int64_t size;       /* of the bytes; a record may end behind `limit` */
    int64_t rows_max;
    int64_t stop_flags; /* a record that has one of them is not for this */
    int64_t body_max;
    int64_t text_max;
    int64_t end;        /* where the records end that were taken */
    cells raw;          /* the text of properties as it is */
    sizes sizes;
    columns columns;
    pairs pairs;
} whole;
MIRRORED(whole);

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
    columns_begin(c, &work);
    pairs_begin(&t->pairs, &names);
    if (t->raw.bounds)
        t->raw.bounds[0] = 0;
    while (rows < t->rows_max && at < limit) {
        const uint8_t *record = c->bytes + at;
        parts its;
        if (!read_parts(record, t->size - at, &its) || its.flags & t->stop_flags)
            break;
        int64_t until = at + its.size + AHEAD;
        for (until = until < t->size ? until : t->size; asked < until; asked += LINE)
            __builtin_prefetch(c->bytes + asked);
        int64_t body = its.body_to - RECORD_HEAD;
        span topic = {record + its.body_to + 1, its.topic_to - its.body_to - 1};
        span text = {record + its.topic_to + 2, its.size - its.topic_to - 2};
        if ((c->body.bounds && body > body_room) || text.size > text_room ||
            !columns_put(c, &work, rows, record, body, topic) ||
            (t->raw.bounds && !put_raw(t, rows, text)) ||
            (wants_pairs && !pairs_put(&t->pairs, &names, rows, text)))
            break;
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
