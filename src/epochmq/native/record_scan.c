/* Checks records of the log and makes their queue units and index keys, like store/scan.py and
 * store/dispatch.py.
 *
 * The scan stops before the first record that is incomplete, damaged or unusual; Python examines that record.
 */
#include "neighbours.h"

enum {
    AHEAD = 4,     /* units whose records are asked for early */
    FRONT = 76,    /* enough of one to find its store time, whatever its hosts */
    GROUPS_MAX = 512,
    PLACES = 2048 /* of the table of groups; a power of two */
};

#define CLOCK_STEP_MS 3000
#define PRE_BLANK 0x7fffffff /* the size in a unit without a record */
static const char DELAYED[] = "SCHEDULE_TOPIC_XXXX"; /* its units carry times: not ordinary */

/* The units of one queue, one after the other; mirrored by store/native_records.py. */
typedef struct {
    int64_t topic_at; /* in the bytes */
    int64_t topic_size;
    int64_t queue_id;
    int64_t first; /* queue offset of the first unit; they rise by one */
    int64_t count;
    int64_t units_at; /* in `units`, bytes */
    int64_t offset; /* of the first record in the log */
} group;

/* In: everything up to `keys_max`. Out: the rest. Mirrored by store/native_records.py. */
typedef struct {
    const uint8_t *bytes; /* a log file's */
    int64_t at;           /* where the next record begins */
    int64_t limit;        /* the log's end in this file */
    int64_t start;        /* the file's log offset */
    int64_t crc;          /* 0: do not compare checksums */
    uint8_t *loose;       /* room for `count_max` units, and for the number of their groups */
    uint16_t *of;
    uint8_t *units;
    int64_t count_max;
    group *groups;
    int64_t groups_max;
    index_key *keys;
    int64_t keys_max;   /* 0: no index */
    int64_t end;        /* where the records end that were taken */
    int64_t units_count;
    int64_t groups_count;
    int64_t keys_count;
} records;
MIRRORED(records);
MIRRORED(group);

/* In: all but `size`, that of the records. Mirrored by units.py. */
typedef struct {
    const uint8_t *bytes; /* of one log file, from log offset `start` to `end` */
    int64_t start;
    int64_t end;
    const uint8_t *units;
    int64_t count;
    int64_t first;        /* queue offset of the first one */
    int64_t queue_id;
    span topic;
    int64_t crc;
    int64_t room;
    int64_t size;
} units;
MIRRORED(units);

MIRRORED(neighbours);

/* In: all. Out: `at` and `wall`. */
typedef struct {
    const uint8_t *bytes;
    int64_t at;    /* where the next record begins */
    int64_t limit; /* end of the bytes */
    int64_t wall;  /* the newest store time so far */
} heads;
MIRRORED(heads);

/* What one record is made of. */
typedef struct {
    int64_t size;
    int64_t queue_offset;
    int32_t queue_id;
    int32_t sys_flag;
    int64_t wall;
    span topic;
    span text; /* its properties */
} record;

static int is_magic(uint32_t magic) { return magic == MAGIC_V1 || magic == MAGIC_V2; }

static int64_t store_time(const uint8_t *at)
{
    return get_i64(at + STORE_TIME_AT + (get32(at + SYS_FLAG_AT) & BORN_V6 ? V6_MORE : 0));
}

/* Whether a whole, sound record of log offset `own` lies at `at`, where `left` bytes are. */
static int read_record(const uint8_t *at, int64_t left, int64_t own, int check_crc, record *found)
{
    if (left < RECORD_LEAST)
        return 0;
    int64_t size = get32(at), head = RECORD_HEAD;
    uint32_t magic = get32(at + MAGIC_AT), flags = get32(at + SYS_FLAG_AT);
    if (!is_magic(magic) || size < RECORD_LEAST || size > left)
        return 0;
    head += (flags & BORN_V6 ? V6_MORE : 0) + (flags & STORE_V6 ? V6_MORE : 0);
    found->queue_offset = get_i64(at + QUEUE_OFFSET_AT);
    if (size < head + 4 || get_i64(at + OFFSET_AT) != own || found->queue_offset < 0)
        return 0;
    int64_t body_size = get32(at + head - 4);
    int64_t topic_at = head + body_size + (magic == MAGIC_V1 ? 1 : 2);
    if (topic_at >= size)
        return 0;
    int64_t topic_size = magic == MAGIC_V1 ? at[topic_at - 1] : get16(at + topic_at - 2);
    int64_t topic_end = topic_at + topic_size;
    if (topic_size == 0 || topic_end + 2 > size || topic_end + 2 + get16(at + topic_end) != size)
        return 0;
    if (check_crc && crc_of(at + head, (size_t)body_size) != get32(at + CRC_AT))
        return 0;
    found->size = size;
    found->queue_id = (int32_t)get32(at + QUEUE_ID_AT);
    found->sys_flag = (int32_t)flags;
    found->wall = store_time(at);
    found->topic.at = at + topic_at;
    found->topic.size = topic_size;
    found->text.at = at + topic_end + 2;
    found->text.size = size - topic_end - 2;
    return 1;
}

static int is_delayed(span topic)
{
    int64_t size = sizeof DELAYED - 1;
    return topic.size == size && memcmp(topic.at, DELAYED, (size_t)size) == 0;
}

/* The group that takes this record's unit, made when it is new (then it is not counted yet); null
 * when there is no room, or the unit is not the queue's next. */
static group *group_of(records *r, uint16_t *places, const record *found, uint32_t prefix)
{
    uint32_t place = (prefix ^ (uint32_t)found->queue_id * 0x9E3779B1u) * 0x85EBCA6Bu;
    for (place = (place >> 16) % PLACES; places[place]; place = (place + 1) % PLACES) {
        group *known = r->groups + places[place] - 1;
        if (known->queue_id == found->queue_id && known->topic_size == found->topic.size &&
            memcmp(r->bytes + known->topic_at, found->topic.at, (size_t)found->topic.size) == 0)
            return known->first + known->count == found->queue_offset ? known : NULL;
    }
    if (r->groups_count >= r->groups_max || r->groups_count >= GROUPS_MAX)
        return NULL;
    group *made = r->groups + r->groups_count++;
    made->topic_at = found->topic.at - r->bytes;
    made->topic_size = found->topic.size;
    made->queue_id = found->queue_id;
    made->first = found->queue_offset;
    made->count = 0;
    places[place] = (uint16_t)r->groups_count;
    return made;
}

/* Take one record; 0 when it is not for us, and then nothing has changed. */
static int take(records *r, uint16_t *places, int64_t at)
{
    record found;
    properties text;
    if (!read_record(r->bytes + at, r->limit - at, r->start + at, r->crc != 0, &found) ||
        is_delayed(found.topic) || !utf8_is_sound(found.topic.at, found.topic.size) ||
        !read_properties(found.text, &text) || text.sink)
        return 0;
    uint32_t prefix = hash_utf8(0, found.topic) * 31 + '#';
    int kind = found.sys_flag & TX_BITS;
    int64_t keys = 0;
    if (r->keys_max && kind != TX_ROLLBACK) {
        span none = {NULL, 0};
        keys = hash_keys(&text, none, prefix, r->start + at, found.wall, r->keys + r->keys_count,
                         r->keys_max - r->keys_count);
        if (keys < 0)
            return 0;
    }
    if (kind != TX_PREPARED && kind != TX_ROLLBACK) {
        group *into = group_of(r, places, &found, prefix);
        if (!into)
            return 0;
        uint8_t *unit = r->loose + r->units_count * UNIT_BYTES;
        put64(unit, (uint64_t)(r->start + at));
        put32(unit + 8, (uint32_t)found.size);
        put64(unit + 12, (uint64_t)(int64_t)text.tags_code);
        r->of[r->units_count++] = (uint16_t)(into - r->groups);
        if (into->count++ == 0)
            into->offset = r->start + at;
    }
    r->keys_count += keys;
    r->end = at + found.size;
    return 1;
}

/* How many records were taken. */
int64_t epq_records(records *r)
{
    uint16_t places[PLACES];
    int64_t count = 0, units_at = 0;
    memset(places, 0, sizeof places);
    r->units_count = r->groups_count = r->keys_count = 0;
    r->end = r->at;
    while (count < r->count_max && take(r, places, r->end))
        count++;
    for (int64_t n = 0; n < r->groups_count; n++) {
        r->groups[n].units_at = units_at;
        units_at += r->groups[n].count * UNIT_BYTES;
    }
    for (int64_t n = 0; n < r->units_count; n++) {
        group *into = r->groups + r->of[n];
        memcpy(r->units + into->units_at, r->loose + n * UNIT_BYTES, UNIT_BYTES);
        into->units_at += UNIT_BYTES;
    }
    for (int64_t n = 0; n < r->groups_count; n++)
        r->groups[n].units_at -= r->groups[n].count * UNIT_BYTES;
    return count;
}

/* Look at the store times of records whose heads are here, as long as they do not go back by much:
 * follow.py, Follower._peek. */
void epq_heads(heads *h)
{
    while (h->limit - h->at >= FRONT) {
        const uint8_t *at = h->bytes + h->at;
        int64_t size = get32(at), wall = store_time(at);
        if (!is_magic(get32(at + MAGIC_AT)) || size < RECORD_LEAST || wall < 0 || h->wall < 0)
            return;
        if (wall <= h->wall - CLOCK_STEP_MS)
            return;
        if (wall > h->wall)
            h->wall = wall;
        h->at += size;
    }
}

/* How many leading units of a queue say what their records are: place, size, queue, queue offset and
 * hash of the tag, and if asked the records' bodies have their checksums. It stops, without a verdict,
 * before whatever is not ordinary, and behind the unit that fills `room`. */
int64_t epq_units(units *u)
{
    int64_t count = 0;
    u->size = 0;
    while (count < u->count && u->size < u->room) {
        const uint8_t *unit = u->units + count * UNIT_BYTES;
        int64_t at = get_i64(unit), size = get32(unit + 8);
        record found;
        properties text;
        if (at < u->start || size < RECORD_LEAST || at > u->end - size ||
            get32(u->bytes + (at - u->start)) != size ||
            !read_record(u->bytes + (at - u->start), size, at, u->crc != 0, &found) ||
            found.queue_offset != u->first + count ||
            found.queue_id != u->queue_id || found.topic.size != u->topic.size ||
            memcmp(found.topic.at, u->topic.at, (size_t)u->topic.size) != 0)
            break;
        if (!read_properties(found.text, &text) ||
            get_i64(unit + 12) != (int64_t)text.tags_code)
            break;
        u->size += size;
        count++;
    }
    return count;
}

/* Whether the record at `at` begins as that of queue offset `number` in queue `queue_id`. */
static int begins(const uint8_t *at, int64_t own, int64_t size, int64_t number, int64_t queue_id)
{
    return get32(at) == size && is_magic(get32(at + MAGIC_AT)) && get_i64(at + OFFSET_AT) == own &&
           get_i64(at + QUEUE_OFFSET_AT) == number && (int32_t)get32(at + QUEUE_ID_AT) == queue_id;
}

/* Ask for the front of the record at log offset `at` early: memory is slower than the loop. */
static void prefetch(const neighbours *n, int64_t at)
{
#if defined(__GNUC__)
    if (at >= n->start && at < n->end)
        __builtin_prefetch(n->bytes + (at - n->start));
#else
    (void)n, (void)at;
#endif
}

/* The records of leading units as spans of the log. It stops before a record of another file, before
 * what has no room, and before a record whose head has changed. */
void epq_neighbours(neighbours *n)
{
    int64_t last = 0;
    n->spans_count = n->records = n->size = n->passed = n->changed = 0;
    while (n->passed < n->count) {
        const uint8_t *unit = n->units + n->passed * UNIT_BYTES;
        int64_t at = get_i64(unit), size = get32(unit + 8);
        if (n->passed + AHEAD < n->count)
            prefetch(n, get_i64(unit + AHEAD * UNIT_BYTES));
        if (size != PRE_BLANK) {
            if (at < n->start || size < RECORD_LEAST || at > n->end - size)
                return;
            if (n->size + size > n->room && n->records)
                return;
            if (!begins(n->bytes + (at - n->start), at, size, n->first + n->passed, n->queue_id)) {
                n->changed = 1;
                return;
            }
            if (at != last || !n->records)
                n->spans[2 * n->spans_count++] = at - n->start;
            last = at + size;
            n->spans[2 * n->spans_count - 1] = last - n->start;
            n->size += size;
            n->records++;
        }
        n->passed++;
    }
}
