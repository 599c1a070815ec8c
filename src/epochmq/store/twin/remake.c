/* Messages on their way out again: of the half topic, the delay levels and the timer topic, made anew
 * from their records in the log.
 *
 * What is stored is byte for byte what real in broker/transaction/half.py and restore in
 * broker/schedule/delayed.py and broker/timer/timed.py make. The first record that is not ordinary
 * ends a call: Python does that one, and judges it. */
#include "desk.h"

enum { PAIRS_MAX = 48, V6_HOSTS = 0x30, TX_BITS = 0xC };

/* One record to be made anew. Mirrored by remake.py. */
typedef struct {
    int64_t offset, size;
    int64_t more; /* HALF: which of `endings`; TIMED: when it was hung up */
} source;

/* Mirrored by remake.py. */
typedef struct {
    desk *desk;
    const uint8_t *log; /* bytes of the log from `start` to `end` */
    int64_t start, end;
    const source *sources;
    int64_t count, kind, wall;
    const ending *endings;
    const uint8_t *texts;
} remake;

/* A record's parts. */
typedef struct {
    const uint8_t *at;
    span body, text;
    properties found;
    span topic, queue_id;
} stored;

/* Whether the record at `s` is whole, ordinary and what the caller takes it for. */
static int read_stored(const remake *m, const source *s, stored *r)
{
    if (s->offset < m->start || s->size < HEAD + 3 || s->size > m->end - s->offset)
        return 0;
    const uint8_t *at = r->at = m->log + (s->offset - m->start), *end = at + s->size;
    if (get32(at) != (uint64_t)s->size || get32(at + 4) != MAGIC_V1 ||
        ((uint64_t)get32(at + OFFSET_AT) << 32 | get32(at + OFFSET_AT + 4)) != (uint64_t)s->offset ||
        get32(at + 36) & V6_HOSTS)
        return 0;
    r->body.at = at + HEAD;
    r->body.size = get32(at + HEAD - 4);
    if (r->body.size < 1 || r->body.size > s->size - HEAD - 3)
        return 0;
    const uint8_t *name = r->body.at + r->body.size;
    const lane *of = m->desk->lanes + m->desk->special[m->kind] - 1;
    if (end - name < 3 + name[0] || memcmp(name, of->name, 1u + of->name[0]))
        return 0;
    r->text.at = name + 1 + name[0] + 2;
    r->text.size = get16(r->text.at - 2);
    return r->text.size && r->text.size == end - r->text.at &&
           crc_of(r->body.at, (size_t)r->body.size) == get32(at + CRC_AT) &&
           read_properties(r->text, &r->found) && !r->found.sink;
}

static int is(span text, const char *name)
{
    size_t size = strlen(name);
    return text.size == (int64_t)size && memcmp(text.at, name, size) == 0;
}

static int same(span one, span other)
{
    return one.size == other.size && one.size && !memcmp(one.at, other.at, (size_t)one.size);
}

/* Properties that the message of a commit does not have: half.py, real. */
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

static uint8_t *put_text(uint8_t *to, const char *text)
{
    return copy(to, (const uint8_t *)text, (int64_t)strlen(text));
}

/* `text` without what is dropped, with what is said anew, and finds the real place in it. The bytes
 * written, 0 when it is not for us. There is room for `text` and MORE_MAX more. */
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
        if (is(name, "REAL_TOPIC"))
            r->topic = value;
        else if (is(name, "REAL_QID"))
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
        to = put_number(put_text(to, "\002TIMER_ENQUEUE_MS\001"), s->more);
        to = put_number(put_text(to, "\002TIMER_DEQUEUE_MS\001"), m->wall);
    }
    if (m->kind != HALF && !waits)
        to = put_text(to, "\002WAIT\001false");
    return to - begin;
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

/* Whether a message of the timer topic may go out by now: timed.py, due_wall. */
static int is_due(const remake *m, const stored *r)
{
    const properties *found = &r->found;
    const int64_t out = digits_of(found->out_ms, 15);
    const uint8_t *at = r->at + STORE_TIME_AT;
    const int64_t store = (int64_t)((uint64_t)get32(at) << 32 | get32(at + 4));
    int64_t exact = out + 1;
    if (out < 0 || found->rolled || store < 0 || store > INT64_MAX / 4)
        return 0;
    if (found->delay_sec.size)
        exact = store + 1000 * digits_of(found->delay_sec, 14);
    else if (found->delay_ms.size)
        exact = store + digits_of(found->delay_ms, 15);
    else if (found->deliver_ms.size)
        exact = digits_of(found->deliver_ms, 15);
    if (exact > out + 1000)
        exact = out + 1000;
    return (exact > out ? exact : out + 1) <= m->wall;
}

/* The queue that the message goes to; NULL when the topic is not known here. */
static const lane *real_place(const desk *d, const stored *r, int64_t *queue_id)
{
    if (!r->topic.size || r->topic.size > TOPIC_MAX || r->queue_id.size < 1 || r->queue_id.size > 9)
        return NULL;
    const lane *l = lane_of(d, r->topic);
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
    desk *d = m->desk;
    stored r;
    memset(&r, 0, sizeof r);
    if (d->count == d->singles_max || !read_stored(m, s, &r) ||
        (m->kind == HALF && !is_meant(m, s, &r)) || (m->kind == TIMED && !is_due(m, &r)))
        return 0;
    const int64_t widest = HEAD + r.body.size + 1 + TOPIC_MAX + 2;
    if (widest + r.text.size + MORE_MAX > d->out_max - d->out_size)
        return 0;
    uint8_t *out = d->out + d->out_size, *draft = out + widest;
    const int64_t text_size = rewrite(m, s, &r, draft);
    int64_t queue_id;
    const lane *l = text_size ? real_place(d, &r, &queue_id) : NULL;
    if (!l)
        return 0;
    const int64_t name_size = 1 + l->name[0], before = HEAD + r.body.size + name_size + 2;
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
    memcpy(out + HEAD + r.body.size, l->name, (size_t)name_size);
    memcpy(out, r.at, (size_t)(HEAD + r.body.size));
    put32(out + SIZE_AT, (uint32_t)size);
    put32(out + QUEUE_ID_AT, (uint32_t)queue_id);
    if (m->kind == HALF)
        put32(out + 36, (get32(r.at + 36) & ~(uint32_t)TX_BITS) | TX_COMMIT);
    memcpy(out + STORE_HOST_AT, d->host.at, 8);
    put64(out + RECONSUME_AT + 4, m->kind == HALF ? (uint64_t)s->offset : 0);

    single *one = d->singles + d->count++;
    memset(one, 0, sizeof *one);
    one->at = d->out_size;
    one->size = (int32_t)size;
    one->slot = l->slot + (int32_t)queue_id;
    one->queue_id = (int32_t)queue_id;
    one->tags_code = r.found.tags_code;
    one->read = -1; /* nobody is answered */
    touch(d, one->slot)->count++;
    d->out_size += size;
    return 1;
}

int64_t epq_remake_bytes(void) { return (int64_t)sizeof(remake); }

/* Make the messages of `sources`, in order, until one is not for us; how many. */
int64_t epq_remake(const remake *m)
{
    int64_t made = 0;
    if (!m->desk->special[m->kind])
        return 0;
    while (made < m->count && remake_one(m, m->sources + made))
        made++;
    return made;
}
