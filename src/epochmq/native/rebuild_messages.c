/* Rebuilds messages of the half topic, the delay levels and the timer topic from their records in the log.
 *
 * The result has the same bytes as that of broker/transaction/half_messages.py, broker/delay/delayed.py and
 * broker/delay/timed.py. A call ends at the first unusual record; Python rebuilds and judges that message. */
#include "send_turn.h"

enum { PAIRS_MAX = 48 };

/* Mirrored by store/remake.py. */
typedef struct {
    send_turn *send_turn;
    piece log;
    const source *sources;
    int64_t count, kind, wall;
    const ending *endings;
    const uint8_t *texts;
} remake;
MIRRORED(remake);
MIRRORED(source);

static int is(span text, const char *name)
{
    size_t size = strlen(name);
    return text.size == (int64_t)size && memcmp(text.at, name, size) == 0;
}

static int same(span one, span other)
{
    return one.size == other.size && one.size && !memcmp(one.at, other.at, (size_t)one.size);
}

/* Properties that a committed message does not have (broker/transaction/half_messages.py). */
static int is_dropped(span name)
{
    static const char *const dropped[] = {
        "TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES", "REAL_TOPIC", "REAL_QID", "DELAY",
        "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "TRAN_MSG"};
    if (name.at[0] != 'T' && name.at[0] != 'R' && name.at[0] != 'D')
        return 0;
    for (size_t n = 0; n < sizeof dropped / sizeof *dropped; n++)
        if (is(name, dropped[n]))
            return 1;
    return 0;
}

/* Copy the properties `text` without those that are dropped, add those that replace them, and find the
 * real topic and queue. Return the bytes written, 0 if Python has to rebuild the message. `r` has room for
 * `text` and MORE_MAX bytes more. */
static int64_t rewrite(const remake *m, const source *s, stored *r, uint8_t *to)
{
    static const uint8_t not[] = "WAIT\001false";
    span names[PAIRS_MAX];
    uint8_t *begin = to;
    int count = 0, waits = 0;
    const uint8_t *at = r->text.at, *end = at + r->text.size;
    while (at < end) {
        const uint8_t *stop = memchr(at, PAIR_END, (size_t)(end - at));
        if (!stop)
            stop = end;
        const uint8_t *mid = memchr(at, NAME_END, (size_t)(stop - at));
        if (!mid || mid == at || mid + 1 == stop || count == PAIRS_MAX)
            return 0;
        span name = {at, mid - at}, value = {mid + 1, stop - mid - 1}, pair = {at, stop - at};
        at = stop + 1;
        for (int n = 0; n < count; n++)
            if (same(names[n], name))
                return 0;
        names[count++] = name;
        if (is(name, "REAL_QID"))
            r->queue_id = value;
        if (m->kind == HALF) {
            if (is_dropped(name))
                continue;
        } else if (is(name, "WAIT")) {
            pair.at = not;
            pair.size = sizeof not - 1;
            waits = 1;
        } else if (m->kind == TIMED && (is(name, "TIMER_ENQUEUE_MS") || is(name, "TIMER_DEQUEUE_MS")))
            return 0;
        if (to > begin)
            *to++ = PAIR_END;
        to = copy(to, pair.at, pair.size);
    }
    if (m->kind == TIMED) {
        to = put_number(put_literal(to, "\002TIMER_ENQUEUE_MS\001"), s->more);
        to = put_number(put_literal(to, "\002TIMER_DEQUEUE_MS\001"), m->wall);
    }
    if (m->kind != HALF && !waits)
        to = put_literal(to, "\002WAIT\001false");
    return to - begin;
}

static int is_of(const stored *r, const send_topic *l)
{
    const uint8_t *name = r->body.at + r->body.size;
    return name[0] == l->name[0] && !memcmp(name, l->name, 1u + l->name[0]);
}

static int is_due(const stored *r, int64_t wall)
{
    const int64_t due = due_of(r);
    return due >= 0 && due <= wall;
}

/* Whether the end is meant for this half message: ending.py, _check and _check_id. */
static int is_meant(const remake *m, const source *s, const stored *r)
{
    const ending *e = m->endings + s->more;
    span group = {m->texts + e->group_at, e->group_size}, id = {m->texts + e->id_at, e->id_size},
         other = {m->texts + e->other_at, e->other_size};
    return e->offset == s->offset && same(group, r->found.group) &&
           (same(id, r->found.uniq_key) || same(other, r->found.uniq_key));
}

/* The queue that the message goes to; NULL when the topic is not known here. */
static const send_topic *real_place(const send_turn *d, const stored *r, int64_t *queue_id)
{
    const span topic = r->found.real_topic;
    if (!topic.size || topic.size > TOPIC_MAX || r->queue_id.size < 1 || r->queue_id.size > 9)
        return NULL;
    const send_topic *l = send_topic_of(d, topic);
    *queue_id = 0;
    for (int64_t n = 0; n < r->queue_id.size; n++) {
        if (r->queue_id.at[n] < '0' || r->queue_id.at[n] > '9')
            return NULL;
        *queue_id = *queue_id * 10 + (r->queue_id.at[n] - '0');
    }
    return l && *queue_id < l->queues ? l : NULL;
}

/* Make the record of one message; 0, and nothing counts, when it is not for us. */
static int remake_one(const remake *m, const source *s)
{
    send_turn *d = m->send_turn;
    stored r;
    memset(&r, 0, sizeof r);
    if (d->count == d->singles_max || !read_stored(&m->log, s, &r) ||
        !is_of(&r, d->send_topics + d->special[m->kind] - 1) ||
        (m->kind == HALF && !is_meant(m, s, &r)) || (m->kind == TIMED && !is_due(&r, m->wall)))
        return 0;
    const int64_t widest = RECORD_HEAD + r.body.size + 1 + TOPIC_MAX + 2;
    if (widest + r.text.size + MORE_MAX > d->out_max - d->out_size)
        return 0;
    uint8_t *out = d->out + d->out_size, *draft = out + widest;
    const int64_t text_size = rewrite(m, s, &r, draft);
    int64_t queue_id;
    const send_topic *l = text_size ? real_place(d, &r, &queue_id) : NULL;
    if (!l)
        return 0;
    const int64_t name_size = 1 + l->name[0], before = RECORD_HEAD + r.body.size + name_size + 2;
    const int64_t size = before + text_size;
    if (text_size > PROPERTIES_MAX || size > d->record_max)
        return 0;
    if (d->keys_max) {
        span none = {NULL, 0};
        int64_t more = hash_keys(&r.found, none, l->prefix, d->count, 0, d->keys + d->keys_count,
                                 d->keys_max - d->keys_count);
        if (more < 0)
            return 0;
        d->keys_count += more;
    }
    memmove(out + before, draft, (size_t)text_size);
    put16(out + before - 2, (uint32_t)text_size);
    memcpy(out + RECORD_HEAD + r.body.size, l->name, (size_t)name_size);
    memcpy(out, r.at, (size_t)(RECORD_HEAD + r.body.size));
    put32(out + SIZE_AT, (uint32_t)size);
    put32(out + QUEUE_ID_AT, (uint32_t)queue_id);
    if (m->kind == HALF)
        put32(out + SYS_FLAG_AT, (get32(r.at + SYS_FLAG_AT) & ~(uint32_t)TX_BITS) | TX_COMMIT);
    memcpy(out + STORE_HOST_AT, d->host.at, 8);
    put64(out + PREPARED_AT, m->kind == HALF ? (uint64_t)s->offset : 0);

    single *one = d->singles + d->count++;
    memset(one, 0, sizeof *one);
    one->at = d->out_size;
    one->size = (int32_t)size;
    one->slot = l->slot + (int32_t)queue_id;
    one->queue_id = (int32_t)queue_id;
    one->tags_code = r.found.tags_code;
    one->read = -1; /* nobody is answered */
    count_stored(d, one->slot);
    d->out_size += size;
    return 1;
}

int64_t epq_remake_bytes(void) { return (int64_t)sizeof(remake); }

/* Make the messages of `sources`, in order, until one is not for us; how many. */
int64_t epq_remake(const remake *m)
{
    int64_t made = 0;
    if (!m->send_turn->special[m->kind])
        return 0;
    while (made < m->count && remake_one(m, m->sources + made))
        made++;
    return made;
}
