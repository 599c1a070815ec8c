/* Single sends (code 310, JSON header) from a connection's bytes to whole records and answers.
 *
 * `epq_stage_sends` is called once a read: it cuts frames off the front, as long as they are ordinary sends,
 * half messages or delayed ones to topics it knows, or ends of transactions (which it only keeps), and
 * makes their records in `out`. `epq_finish` is called once a turn, when the log's end and the queues'
 * are known: it puts in offsets and store times and makes units, index keys and answers. In between
 * nothing outside the send_turn has changed, so Python may still take it all back.
 */
#include "signatures.h"

enum { SYS_FLAGS_TAKEN = 0x703 | TX_PREPARED }; /* compressed, several tags, kind of compression */

int64_t epq_send_turn_bytes(void) { return (int64_t)sizeof(send_turn); }
const int64_t epq_sizeof_send_turn_front = (int64_t)offsetof(send_turn, slots_used);
MIRRORED(slot);
MIRRORED(single);
MIRRORED(ending);

/* Forget all send_topics; nothing may be staged. */
void epq_send_topics_clear(send_turn *d)
{
    memset(d->table, 0, sizeof d->table);
    memset(d->special, 0, sizeof d->special);
    d->send_topics_used = d->slots_used = d->counted_count = 0;
}

/* The send_topic of a topic that may be sent to; NULL for none. */
const send_topic *send_topic_of(const send_turn *d, span topic)
{
    uint32_t at = hash_utf8(0, topic) % TABLE;
    for (; d->table[at]; at = (at + 1) % TABLE) {
        const send_topic *l = d->send_topics + d->table[at] - 1;
        if (l->name[0] == topic.size && !memcmp(l->name + 1, topic.at, (size_t)topic.size))
            return l;
    }
    return NULL;
}

/* The first slot of a new send_topic, -1 when there is no more room. `special`: for messages of that kind,
 * and nobody may send to it; -1: a topic whose messages may be of the kinds in `allowed`. */
int64_t epq_send_topic_add(send_turn *d, const uint8_t *topic, int64_t size, int64_t queues, int64_t sys_flag,
                     int64_t prefix, int64_t special, int64_t allowed)
{
    span text = {topic, size};
    if (size < 1 || size > TOPIC_MAX || d->send_topics_used == SEND_TOPICS || queues < 1 ||
        queues > d->slots_max - d->slots_used)
        return -1;
    if (special < 0) {
        if (send_topic_of(d, text))
            return -1;
        uint32_t at = hash_utf8(0, text) % TABLE;
        while (d->table[at])
            at = (at + 1) % TABLE;
        d->table[at] = (int16_t)(d->send_topics_used + 1);
    } else
        d->special[special] = (int32_t)(d->send_topics_used + 1);
    send_topic *l = d->send_topics + d->send_topics_used++;
    l->name[0] = (uint8_t)size;
    memcpy(l->name + 1, topic, (size_t)size);
    l->queues = (int32_t)queues;
    l->sys_flag = (int32_t)sys_flag;
    l->prefix = (uint32_t)prefix;
    l->allowed = (int32_t)allowed;
    l->slot = (int32_t)d->slots_used;
    memset(d->slots + l->slot, 0, (size_t)queues * sizeof *d->slots);
    d->slots_used += queues;
    return l->slot;
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

/* Index keys of a message under its place's topic; 0 when there is no room. */
static int add_keys(send_turn *d, const properties *found, const place *to)
{
    span none = {NULL, 0};
    int64_t more = hash_keys(found, none, to->send_topic->prefix, d->count, 0, d->keys + d->keys_count,
                             d->keys_max - d->keys_count);
    if (more < 0)
        return 0;
    d->keys_count += more;
    return 1;
}

/* The class of a message of that many bytes: RocketMQ's bounds. */
static int size_class(int64_t bytes)
{
    static const int64_t bounds[SIZE_CLASSES - 1] = {1 << 10, 4 << 10, 512 << 10,
                                                     1 << 20, 2 << 20, 4 << 20};
    int n = 0;
    while (n < SIZE_CLASSES - 1 && bytes > bounds[n])
        n++;
    return n;
}

/* Make the record of one message at `out_size`; 0, and nothing counts, when it is not for us. */
static int stage(send_turn *d, const request *r, span body, const uint8_t *born_host)
{
    if (body.size < 1 || body.size > d->body_max || r->sys_flag & ~(int64_t)SYS_FLAGS_TAKEN ||
        r->topic.size < 1 || r->topic.size > TOPIC_MAX || d->count == d->singles_max)
        return 0;
    const send_topic *l = send_topic_of(d, r->topic);
    if (!l || r->queue_id < 0 || r->queue_id >= l->queues)
        return 0;
    /* Unescaping never makes a text longer; the text is put where the longest topic leaves room. */
    const int64_t widest = RECORD_HEAD + body.size + 1 + TOPIC_MAX + 2;
    if (widest + r->properties.size + d->tail.size + MORE_MAX > d->out_max - d->out_size)
        return 0;
    uint8_t *out = d->out + d->out_size, *draft = out + widest;
    span text = {draft, json_unescape(r->properties, draft)};
    properties found;
    if (text.size <= 0 || !read_properties(text, &found) || !found.wait || !found.uniq_key.size ||
        found.uniq_key.size > KEY_MAX || !is_plain(found.uniq_key))
        return 0;
    place to = {l, r->queue_id, r->sys_flag, found.tags_code, PROPERTIES_MAX, 0, {0}};
    if (found.rare ? !reroute(d, r, &found, text, &to) : (r->sys_flag & TX_PREPARED) != 0)
        return 0;
    const int64_t name_size = 1 + to.send_topic->name[0], before = RECORD_HEAD + body.size + name_size + 2;
    const int joined = draft[text.size - 1] == PAIR_END;
    const int64_t plain_size = text.size + d->tail.size - joined, text_size = plain_size + to.size;
    const int64_t size = before + text_size;
    if (text_size > to.properties_max || size > d->record_max)
        return 0;
    if (d->keys_max && !add_keys(d, &found, &to))
        return 0;
    const int64_t key_at = before + (found.uniq_key.at - draft);
    uint8_t *at = out + before;
    memmove(at, draft, (size_t)text.size);
    copy(copy(at + text.size, d->tail.at + joined, d->tail.size - joined), to.more, to.size);
    put16(at - 2, (uint32_t)text_size);
    memcpy(out + RECORD_HEAD + body.size, to.send_topic->name, (size_t)name_size);
    memcpy(out + RECORD_HEAD, body.at, (size_t)body.size);
    put32(out + SIZE_AT, (uint32_t)size);
    put32(out + 4, MAGIC_V1);
    put32(out + CRC_AT, crc_of(body.at, (size_t)body.size));
    put32(out + QUEUE_ID_AT, (uint32_t)to.queue_id);
    put32(out + FLAG_AT, (uint32_t)r->user_flag);
    put32(out + 36, (uint32_t)(to.sys_flag | l->sys_flag));
    put64(out + BORN_TIME_AT, (uint64_t)r->born);
    memcpy(out + BORN_HOST_AT, born_host, 8);
    memcpy(out + STORE_HOST_AT, d->host.at, 8);
    put32(out + RECONSUME_AT, (uint32_t)r->reconsumed);
    put64(out + RECONSUME_AT + 4, 0);
    put32(out + RECORD_HEAD - 4, (uint32_t)body.size);

    single *s = d->singles + d->count++;
    s->at = d->out_size;
    s->size = (int32_t)size;
    s->slot = to.send_topic->slot + (int32_t)to.queue_id;
    s->queue_id = (int32_t)r->queue_id;
    s->opaque = (int32_t)r->head.opaque;
    s->tags_code = to.tags_code;
    s->key_at = (int32_t)key_at;
    s->key_size = (int32_t)found.uniq_key.size;
    s->read = (int32_t)d->reads;
    const int64_t sent_bytes = RECORD_HEAD + body.size + 1 + l->name[0] + 2 + plain_size;
    count_sent(d, l->slot + (int32_t)r->queue_id, sent_bytes);
    int64_t *sizes = d->sizes + ((l - d->send_topics) * MESSAGE_TYPES + message_type(&found)) * SIZE_FIELDS;
    sizes[size_class(sent_bytes)]++;
    sizes[SIZE_CLASSES] += sent_bytes;
    count_stored(d, s->slot);
    d->out_size += size;
    return 1;
}

static int32_t text_at(const send_turn *d, span header, span part)
{
    return part.size ? (int32_t)(d->texts_size + (part.at - header.at)) : 0;
}

/* Keep what ends a transaction; 0 when it is not for us. */
static int keep_end(send_turn *d, const request *r, span header)
{
    if (!(d->allowed >> ENDS & 1) || (r->how != TX_COMMIT && r->how != TX_ROLLBACK) ||
        d->endings_count == d->endings_max || header.size > d->texts_max - d->texts_size)
        return 0;
    ending *e = d->endings + d->endings_count++;
    e->queue_offset = r->queue_offset;
    e->offset = r->offset;
    e->how = (int32_t)r->how;
    e->unused = 0;
    e->header_at = (int32_t)d->texts_size;
    e->header_size = (int32_t)header.size;
    e->group_at = text_at(d, header, r->group);
    e->group_size = (int32_t)r->group.size;
    e->id_at = text_at(d, header, r->id);
    e->id_size = (int32_t)r->id.size;
    e->other_at = text_at(d, header, r->other_id);
    e->other_size = (int32_t)r->other_id.size;
    memcpy(d->texts + d->texts_size, header.at, (size_t)header.size);
    d->texts_size += header.size;
    return 1;
}

/* Take frames off the front of `data`; how many bytes they had. Another frame than a send or an end
 * that is for us ends it, as does half a frame. With `checks` sends must be signed, and ends are not for us. */
int64_t epq_stage_sends(send_turn *d, const uint8_t *data, int64_t size, const uint8_t *born_host,
                        access *checks)
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
        if (!read_request(text, &r))
            break;
        if (checks && (r.head.code == END_TRANSACTION || !may_send(checks, &r, body)))
            break;
        if (r.head.code == END_TRANSACTION ? body.size || !keep_end(d, &r, text)
                                      : !stage(d, &r, body, born_host))
            break;
        if (checks)
            note_opaque(checks, &r);
        pos += 4 + length;
    }
    d->reads += pos > 0;
    return pos;
}

uint8_t *put_number(uint8_t *to, int64_t value)
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
static uint8_t *put_answer(const send_turn *d, const single *s, int64_t offset, int64_t queue_offset,
                           uint8_t *to)
{
    uint8_t *begin = to;
    to = put_literal(to + PREFIX, "{\"code\":0,\"extFields\":{\"msgId\":\"");
    to = copy(to, d->id.at, d->id.size);
    put_hex(to, (uint64_t)offset);
    to = put_literal(to + 16, "\",\"queueId\":\"");
    to = put_number(to, s->queue_id);
    to = put_literal(to, "\",\"queueOffset\":\"");
    to = put_number(to, queue_offset);
    to = put_literal(to, "\",\"transactionId\":\"");
    to = copy(to, d->out + s->at + s->key_at, s->key_size);
    to = copy(to, d->middle.at, d->middle.size);
    to = put_number(to, s->opaque);
    to = copy(to, d->end.at, d->end.size);
    put32(begin, (uint32_t)(to - begin - 4));
    put32(begin + 4, (uint32_t)(to - begin - PREFIX));
    return to;
}

/* An answer has at most this much beside its texts of the send_turn's own. */
enum { ANSWER_LEAST = PREFIX + 128 + 16 + KEY_MAX + 3 * 20 };

/* Complete what is staged for log position `offset` and store time `wall`; the bytes of all answers,
 * -1 when the answers do not fit. May be called again after that. */
int64_t epq_finish(send_turn *d, int64_t offset, int64_t wall)
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
    int64_t read = 0;
    for (int64_t n = 0; n < d->count; n++) {
        const single *s = d->singles + n;
        for (; read < s->read; read++)
            d->ends[read] = to - d->answers;
        slot *q = d->slots + s->slot;
        uint8_t *record = d->out + s->at, *u = d->units + q->unit + q->count * UNIT_BYTES;
        int64_t queue_offset = q->next + q->count++, place = offset + s->at;
        put64(record + QUEUE_OFFSET_AT, (uint64_t)queue_offset);
        put64(record + OFFSET_AT, (uint64_t)place);
        put64(record + STORE_TIME_AT, (uint64_t)wall);
        put64(u, (uint64_t)place);
        put32(u + 8, (uint32_t)s->size);
        put64(u + 12, (uint64_t)(q->delay < 0 ? (int64_t)s->tags_code : wall + q->delay));
        if (s->read >= 0)
            to = put_answer(d, s, place, queue_offset, to);
    }
    for (; read < d->reads; read++)
        d->ends[read] = to - d->answers;
    return to - d->answers;
}

/* Let go of what was staged, but not of ends, nor of the counts of what was sent. */
void epq_clear(send_turn *d)
{
    for (int64_t n = 0; n < d->touched_count; n++)
        d->slots[d->touched[n]].count = 0;
    d->out_size = d->count = d->keys_count = d->touched_count = d->reads = 0;
}
