/* Single sends (code 310, JSON header) from a connection's bytes to whole records and answers.
 *
 * `epq_take` is called once a read: it cuts frames off the front, as long as they are ordinary sends
 * to topics it knows, and makes their records in `out`. `epq_finish` is called once a turn, when the
 * log's end and the queues' are known: it puts in offsets and store times and makes units, index keys
 * and answers. In between nothing outside the desk has changed, so Python may still take it all back.
 */
#include "json.h"
#include "twin.h"

enum { PREFIX = 8, HEAD = 88, TOPIC_MAX = 127, LANES = 1024, TABLE = 4096, KEY_MAX = 64 };
enum { SYS_FLAGS_TAKEN = 0x703 }; /* compressed, several tags, kind of compression */

#define BORN_AT 40
#define BORN_HOST_AT 48
#define STORE_TIME_AT 56
#define STORE_HOST_AT 64
#define RECONSUME_AT 72
#define MAGIC_V1 0xDAA320A7u

/* A topic that may be sent to; its queues are the slots from `slot` on. */
typedef struct {
    uint8_t name[TOPIC_MAX + 1]; /* the record's topic field: length and text */
    int32_t queues, slot, sys_flag;
    uint32_t prefix; /* hash of topic# */
} lane;

/* One queue: what this turn brings it. Mirrored by library.py. */
typedef struct {
    int64_t next;  /* queue offset of the first; set by Python before epq_finish */
    int64_t count; /* messages */
    int64_t bytes; /* of records */
    int64_t unit;  /* where its units begin in `units`, in bytes */
} slot;

/* One message of the turn. */
typedef struct {
    int64_t at; /* of its record in `out` */
    int32_t size, slot, queue_id, opaque, tags_code, key_at, key_size, read;
} single;

/* In: everything up to `record_max`, and the buffers. Mirrored by library.py. */
typedef struct {
    span tail;   /* added to each message's properties; begins with PAIR_END */
    span host;   /* store host, 8 bytes */
    span id;     /* the same in hexadecimal */
    span middle; /* of an answer: from behind the key to before the opaque */
    span end;    /* of an answer: from behind the opaque */
    int64_t header_max, body_max, record_max;
    uint8_t *out;
    int64_t out_max;
    single *singles;
    int64_t singles_max;
    index_key *keys;
    int64_t keys_max; /* 0: no index */
    slot *slots;
    int64_t slots_max;
    int32_t *touched; /* slots of this turn, as many as there are slots */
    uint8_t *units;   /* one for each single */
    uint8_t *answers;
    int64_t answers_max;
    int64_t *ends; /* of each read's answers; as many as there are singles */
    int64_t out_size, count, keys_count, touched_count, reads;
    int64_t slots_used, lanes_used;
    lane lanes[LANES];
    int16_t table[TABLE]; /* number of a lane + 1, by hash of its topic */
} desk;

int64_t epq_desk_bytes(void) { return (int64_t)sizeof(desk); }

/* Forget all lanes; nothing may be staged. */
void epq_lanes_clear(desk *d)
{
    memset(d->table, 0, sizeof d->table);
    d->lanes_used = d->slots_used = 0;
}

static int16_t *entry_of(desk *d, span topic, uint32_t hash)
{
    uint32_t at = hash % TABLE;
    while (d->table[at]) {
        lane *l = d->lanes + d->table[at] - 1;
        if (l->name[0] == topic.size && !memcmp(l->name + 1, topic.at, (size_t)topic.size))
            break;
        at = (at + 1) % TABLE;
    }
    return d->table + at;
}

/* The first slot of a new lane, -1 when there is no more room. */
int64_t epq_lane_add(desk *d, const uint8_t *topic, int64_t size, int64_t queues, int64_t sys_flag,
                     int64_t prefix)
{
    span text = {topic, size};
    if (size < 1 || size > TOPIC_MAX || d->lanes_used == LANES || queues < 1 ||
        queues > d->slots_max - d->slots_used)
        return -1;
    int16_t *entry = entry_of(d, text, hash_utf8(0, text));
    if (*entry)
        return -1;
    lane *l = d->lanes + d->lanes_used++;
    *entry = (int16_t)d->lanes_used;
    l->name[0] = (uint8_t)size;
    memcpy(l->name + 1, topic, (size_t)size);
    l->queues = (int32_t)queues;
    l->sys_flag = (int32_t)sys_flag;
    l->prefix = (uint32_t)prefix;
    l->slot = (int32_t)d->slots_used;
    memset(d->slots + l->slot, 0, (size_t)queues * sizeof *d->slots);
    d->slots_used += queues;
    return l->slot;
}

/* The fields of a send's header (facts/remoting.md 2.1), as far as they are needed. */
typedef struct {
    int64_t code, flag, opaque, version;
    span topic, properties;
    int64_t queue_id, sys_flag, born, user_flag, reconsumed;
} request;

/* One of the header's extFields; all are texts. 0: not for us. */
static int read_field(cursor *c, request *r, uint32_t *seen)
{
    span name, value;
    int escaped;
    int64_t ignored;
    if (!json_string(c, &name, &escaped) || escaped || !json_mark(c, ':') ||
        !json_string(c, &value, &escaped))
        return 0;
    if (name.size != 1 || name.at[0] < 'a' || name.at[0] > 'm')
        return 1; /* a field that nobody asks for, such as the broker's name */
    uint32_t bit = 1u << (name.at[0] - 'a');
    if (*seen & bit || (escaped && name.at[0] != 'i'))
        return 0;
    *seen |= bit;
    switch (name.at[0]) {
    case 'b':
        r->topic = value;
        return 1;
    case 'd':
        return json_text_int(value, INT32_MIN, INT32_MAX, &ignored);
    case 'e':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->queue_id);
    case 'f':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->sys_flag);
    case 'g':
        return json_text_int(value, INT64_MIN, INT64_MAX, &r->born);
    case 'h':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->user_flag);
    case 'i':
        r->properties = value;
        return 1;
    case 'j':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->reconsumed);
    case 'l':
        return json_text_int(value, INT32_MIN, INT32_MAX, &ignored);
    case 'm':
        return value.size == 5 && memcmp(value.at, "false", 5) == 0;
    default: /* producer group, default topic, unit mode */
        return 1;
    }
}

static int read_fields(cursor *c, request *r)
{
    const uint32_t needed = 0x1FF; /* a to i */
    uint32_t seen = 0;
    if (!json_mark(c, '{'))
        return 0;
    do {
        if (!read_field(c, r, &seen))
            return 0;
    } while (json_mark(c, ','));
    return json_mark(c, '}') && (seen & needed) == needed;
}

static int is_name(span text, const char *name)
{
    size_t size = strlen(name);
    return text.size == (int64_t)size && memcmp(text.at, name, size) == 0;
}

/* The whole header. 0: not for us. */
static int read_header(span header, request *r)
{
    cursor c = {header.at, header.at + header.size};
    uint32_t seen = 0, bit;
    int escaped;
    span name, value;
    memset(r, 0, sizeof *r);
    if (!json_mark(&c, '{'))
        return 0;
    do {
        if (!json_string(&c, &name, &escaped) || escaped || !json_mark(&c, ':'))
            return 0;
        if (is_name(name, "code")) {
            bit = 1;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &r->code))
                return 0;
        } else if (is_name(name, "extFields")) {
            bit = 2;
            if (!read_fields(&c, r))
                return 0;
        } else if (is_name(name, "flag")) {
            bit = 4;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &r->flag))
                return 0;
        } else if (is_name(name, "opaque")) {
            bit = 8;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &r->opaque))
                return 0;
        } else if (is_name(name, "version")) {
            bit = 16;
            if (!json_int(&c, INT32_MIN, INT32_MAX, &r->version))
                return 0;
        } else if (is_name(name, "language")) {
            bit = 32;
            if (!json_string(&c, &value, &escaped))
                return 0;
        } else if (is_name(name, "serializeTypeCurrentRPC")) {
            bit = 64;
            if (!json_string(&c, &value, &escaped))
                return 0;
        } else
            return 0;
        if (seen & bit)
            return 0;
        seen |= bit;
    } while (json_mark(&c, ','));
    return json_mark(&c, '}') && json_at_end(&c) && (seen & 11) == 11 && r->code == 310 &&
           r->flag == 0;
}

/* A transaction id that the answer's template may hold as it is: Python's bytes.isalnum. */
static int is_plain(span key)
{
    for (int64_t n = 0; n < key.size; n++) {
        uint8_t c = key.at[n];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
            return 0;
    }
    return 1;
}

/* Make the record of one message at `out_size`; 0, and nothing counts, when it is not for us. */
static int stage(desk *d, const request *r, span body, const uint8_t *born_host)
{
    if (body.size < 1 || body.size > d->body_max || r->sys_flag & ~(int64_t)SYS_FLAGS_TAKEN ||
        r->topic.size < 1 || r->topic.size > TOPIC_MAX || d->count == d->singles_max)
        return 0;
    int16_t number = *entry_of(d, r->topic, hash_utf8(0, r->topic));
    if (!number)
        return 0;
    const lane *l = d->lanes + number - 1;
    if (r->queue_id < 0 || r->queue_id >= l->queues)
        return 0;
    int64_t name_size = 1 + l->name[0];
    int64_t before = HEAD + body.size + name_size + 2;
    /* Unescaping never makes a text longer. */
    if (before + r->properties.size + d->tail.size > d->out_max - d->out_size)
        return 0;
    uint8_t *out = d->out + d->out_size, *at = out + before;
    span text = {at, json_unescape(r->properties, at)};
    properties found;
    if (text.size <= 0 || !read_properties(text, &found) || found.rare || !found.wait ||
        !found.uniq_key.size || found.uniq_key.size > KEY_MAX || !is_plain(found.uniq_key))
        return 0;
    int joined = at[text.size - 1] == PAIR_END;
    int64_t text_size = text.size + d->tail.size - joined;
    int64_t size = before + text_size;
    if (text_size > PROPERTIES_MAX || size > d->record_max)
        return 0;
    if (d->keys_max) {
        span none = {NULL, 0};
        int64_t more = hash_keys(&found, none, l->prefix, d->count, 0, d->keys + d->keys_count,
                                 d->keys_max - d->keys_count);
        if (more < 0)
            return 0;
        d->keys_count += more;
    }
    copy(at + text.size, d->tail.at + joined, d->tail.size - joined);
    put16(at - 2, (uint32_t)text_size);
    memcpy(out + HEAD + body.size, l->name, (size_t)name_size);
    memcpy(out + HEAD, body.at, (size_t)body.size);
    put32(out + SIZE_AT, (uint32_t)size);
    put32(out + 4, MAGIC_V1);
    put32(out + CRC_AT, crc_of(body.at, (size_t)body.size));
    put32(out + QUEUE_ID_AT, (uint32_t)r->queue_id);
    put32(out + FLAG_AT, (uint32_t)r->user_flag);
    put32(out + 36, (uint32_t)(r->sys_flag | l->sys_flag));
    put64(out + BORN_AT, (uint64_t)r->born);
    memcpy(out + BORN_HOST_AT, born_host, 8);
    memcpy(out + STORE_HOST_AT, d->host.at, 8);
    put32(out + RECONSUME_AT, (uint32_t)r->reconsumed);
    put64(out + RECONSUME_AT + 4, 0);
    put32(out + HEAD - 4, (uint32_t)body.size);

    single *s = d->singles + d->count++;
    s->at = d->out_size;
    s->size = (int32_t)size;
    s->slot = l->slot + (int32_t)r->queue_id;
    s->queue_id = (int32_t)r->queue_id;
    s->opaque = (int32_t)r->opaque;
    s->tags_code = found.tags_code;
    s->key_at = (int32_t)(found.uniq_key.at - out);
    s->key_size = (int32_t)found.uniq_key.size;
    s->read = (int32_t)d->reads;
    slot *q = d->slots + s->slot;
    if (!q->count)
        d->touched[d->touched_count++] = s->slot;
    q->count++;
    q->bytes += size;
    d->out_size += size;
    return 1;
}

/* Take frames off the front of `data`; how many bytes they had. Another frame than an ordinary send
 * ends it, as does half a frame. */
int64_t epq_take(desk *d, const uint8_t *data, int64_t size, const uint8_t *born_host)
{
    int64_t pos = 0;
    while (size - pos >= PREFIX) {
        int64_t length = get32(data + pos), header = get32(data + pos + 4);
        request r;
        /* A binary header's type makes `header` far larger than any header may be. */
        if (header > d->header_max || header + 4 > length || length > size - pos - 4)
            break;
        span text = {data + pos + PREFIX, header};
        span body = {data + pos + PREFIX + header, length - 4 - header};
        if (!read_header(text, &r) || !stage(d, &r, body, born_host))
            break;
        pos += 4 + length;
    }
    d->reads += pos > 0;
    return pos;
}

static uint8_t *put_text(uint8_t *to, const char *text)
{
    return copy(to, (const uint8_t *)text, (int64_t)strlen(text));
}

static uint8_t *put_number(uint8_t *to, int64_t value)
{
    uint8_t digits[20];
    int count = 0;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[count++] = (uint8_t)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0)
        *to++ = '-';
    while (count)
        *to++ = digits[--count];
    return to;
}

/* The answer that says "stored": byte for byte what wire/hot_replies.py, send_reply, makes. */
static uint8_t *put_answer(const desk *d, const single *s, int64_t offset, int64_t queue_offset,
                           uint8_t *to)
{
    uint8_t *begin = to;
    to = put_text(to + PREFIX, "{\"code\":0,\"extFields\":{\"msgId\":\"");
    to = copy(to, d->id.at, d->id.size);
    put_hex(to, (uint64_t)offset);
    to = put_text(to + 16, "\",\"queueId\":\"");
    to = put_number(to, s->queue_id);
    to = put_text(to, "\",\"queueOffset\":\"");
    to = put_number(to, queue_offset);
    to = put_text(to, "\",\"transactionId\":\"");
    to = copy(to, d->out + s->at + s->key_at, s->key_size);
    to = copy(to, d->middle.at, d->middle.size);
    to = put_number(to, s->opaque);
    to = copy(to, d->end.at, d->end.size);
    put32(begin, (uint32_t)(to - begin - 4));
    put32(begin + 4, (uint32_t)(to - begin - PREFIX));
    return to;
}

/* An answer has at most this much beside its texts of the desk's own. */
enum { ANSWER_LEAST = PREFIX + 128 + 16 + KEY_MAX + 3 * 20 };

/* Complete what is staged for log position `offset` and store time `wall`; the bytes of all answers,
 * -1 when the answers do not fit. May be called again after that. */
int64_t epq_finish(desk *d, int64_t offset, int64_t wall)
{
    int64_t each = ANSWER_LEAST + d->id.size + d->middle.size + d->end.size;
    int64_t unit = 0;
    if (d->count > d->answers_max / each)
        return -1;
    for (int64_t n = 0; n < d->touched_count; n++) {
        slot *q = d->slots + d->touched[n];
        q->unit = unit;
        unit += q->count * UNIT_BYTES;
        q->count = 0; /* counted up again below */
    }
    for (int64_t n = 0; n < d->keys_count; n++) {
        index_key *key = d->keys + n;
        key->offset = offset + d->singles[key->offset].at;
        key->wall = wall;
    }
    uint8_t *to = d->answers;
    for (int64_t n = 0; n < d->count; n++) {
        const single *s = d->singles + n;
        slot *q = d->slots + s->slot;
        uint8_t *record = d->out + s->at, *u = d->units + q->unit + q->count * UNIT_BYTES;
        int64_t queue_offset = q->next + q->count++, place = offset + s->at;
        put64(record + QUEUE_OFFSET_AT, (uint64_t)queue_offset);
        put64(record + OFFSET_AT, (uint64_t)place);
        put64(record + STORE_TIME_AT, (uint64_t)wall);
        put64(u, (uint64_t)place);
        put32(u + 8, (uint32_t)s->size);
        put64(u + 12, (uint64_t)(int64_t)s->tags_code);
        to = put_answer(d, s, place, queue_offset, to);
        d->ends[s->read] = to - d->answers;
    }
    return to - d->answers;
}

/* Let go of what was staged. */
void epq_clear(desk *d)
{
    for (int64_t n = 0; n < d->touched_count; n++)
        memset(d->slots + d->touched[n], 0, sizeof *d->slots);
    d->out_size = d->count = d->keys_count = d->touched_count = d->reads = 0;
}
