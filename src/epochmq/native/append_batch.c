/* A batch (code 320) from the request's body to whole records, queue units and index keys. */
#include "native.h"

enum { ENTRY_HEAD = 20, ENTRY_LEAST = 22, SINK_ID_MAX = 255, SINK_DIGITS = 18 };

/* In: everything up to `ids_max`. Out: the rest. Mirrored by library.py. */
typedef struct {
    span body;      /* entries: size i32, magic i32, crc i32, flag i32, body i32 + bytes, props i16 + */
    span head;      /* of each record; size, crc, flag, offsets and the body's size are put in here */
    span name;      /* the record's topic field, its length included */
    span tail;      /* added to properties that have a UNIQ_KEY; begins with PAIR_END */
    span tail_key;  /* added to those that have none */
    span key;       /* the batch's own UNIQ_KEY, for records without one */
    span host;      /* hexadecimal store host, of which message ids are made */
    int64_t prefix; /* hash of topic# */
    int64_t offset; /* where the first record goes in the log */
    int64_t queue_offset;
    int64_t wall;
    int64_t room;       /* bytes that the log's file has for these records */
    int64_t record_max; /* a larger one is not for us */
    uint8_t *out;
    int64_t out_max;
    uint8_t *units;
    int64_t count_max;
    index_key *keys;
    int64_t keys_max; /* 0: no index */
    uint8_t *ids;
    int64_t ids_max;
    int64_t out_size;
    int64_t keys_count;
    int64_t ids_size;
    int64_t marked;  /* all messages are a sink's, one run of one part of one batch */
    span sink;       /* whose; in `body` */
    int64_t sink_batch;
    int64_t sink_part;
    int64_t sink_seq; /* of the first message; the others follow */
} batch;
MIRRORED(batch);

/* `text` and `tail` as one properties text; where the next bytes go. `tail` begins with PAIR_END. */
static uint8_t *put_properties(uint8_t *to, span text, span tail)
{
    int joined = text.size == 0 || text.at[text.size - 1] == PAIR_END;
    to = copy(to, text.at, text.size);
    return copy(to, tail.at + joined, tail.size - joined);
}

/* Message `row` as one more of the batch's run; 0 when it is none. */
static int follows_run(batch *b, const properties *found, int64_t row)
{
    int64_t number = digits_of(found->sink_batch, SINK_DIGITS);
    int64_t part = digits_of(found->sink_part, SINK_DIGITS);
    int64_t seq = digits_of(found->sink_seq, SINK_DIGITS);
    span sink = found->sink_id;
    if (sink.size > SINK_ID_MAX || number < 0 || part < 0 || seq < 0)
        return 0;
    if (row == 0) {
        b->marked = 1;
        b->sink = sink;
        b->sink_batch = number;
        b->sink_part = part;
        b->sink_seq = seq;
        return 1;
    }
    return b->marked && sink.size == b->sink.size &&
           memcmp(sink.at, b->sink.at, (size_t)sink.size) == 0 && number == b->sink_batch &&
           part == b->sink_part && seq == b->sink_seq + row;
}

/* How many records the batch made; 0 when it is not for us. */
int64_t epq_batch(batch *b)
{
    const uint8_t *at = b->body.at, *end = at + b->body.size;
    uint8_t *out = b->out, *ids = b->ids;
    int64_t count = 0, keys_count = 0, offset = b->offset;
    int64_t fixed = b->head.size + b->name.size + 2;
    int64_t limit = b->room < b->out_max ? b->room : b->out_max;

    b->marked = 0;
    if (b->head.size < OFFSET_AT + 12 || b->tail.size < 1 || b->tail_key.size < 1)
        return 0;
    while (at < end) {
        if (end - at < ENTRY_LEAST || count == b->count_max)
            return 0;
        int64_t left = end - at, size = get32(at), body_size = get32(at + 16);
        if (size > left || ENTRY_HEAD + body_size + 2 > size || body_size == 0)
            return 0;
        const uint8_t *body = at + ENTRY_HEAD;
        span text = {body + body_size + 2, get16(body + body_size)};
        if (ENTRY_LEAST + body_size + text.size != size)
            return 0;
        properties found;
        if (!read_properties(text, &found) ||
            (found.sink ? !follows_run(b, &found, count) : b->marked))
            return 0;
        span tail = found.uniq_key.size ? b->tail : b->tail_key;
        int joined = text.size == 0 || text.at[text.size - 1] == PAIR_END;
        int64_t text_size = text.size + tail.size - joined;
        int64_t record = fixed + body_size + text_size;
        if (text_size > PROPERTIES_MAX || record > b->record_max ||
            record > limit - (out - b->out) || b->ids_max - (ids - b->ids) < b->host.size + 17)
            return 0;

        copy(out, b->head.at, b->head.size);
        put32(out + SIZE_AT, (uint32_t)record);
        put32(out + CRC_AT, crc_of(body, (size_t)body_size));
        memcpy(out + FLAG_AT, at + 12, 4);
        put64(out + QUEUE_OFFSET_AT, (uint64_t)(b->queue_offset + count));
        put64(out + OFFSET_AT, (uint64_t)offset);
        put32(out + b->head.size - 4, (uint32_t)body_size);
        out = copy(out + b->head.size, body, body_size);
        out = copy(out, b->name.at, b->name.size);
        put16(out, (uint32_t)text_size);
        out = put_properties(out + 2, text, tail);

        uint8_t *unit = b->units + count * UNIT_BYTES;
        put64(unit, (uint64_t)offset);
        put32(unit + 8, (uint32_t)record);
        put64(unit + 12, (uint64_t)(int64_t)found.tags_code);
        if (b->keys_max) {
            int64_t more = hash_keys(&found, b->key, (uint32_t)b->prefix, offset, b->wall,
                                     b->keys + keys_count, b->keys_max - keys_count);
            if (more < 0)
                return 0;
            keys_count += more;
        }
        if (count)
            *ids++ = ',';
        ids = copy(ids, b->host.at, b->host.size);
        put_hex(ids, (uint64_t)offset);
        ids += 16;
        offset += record;
        count++;
        at += size;
    }
    b->out_size = out - b->out;
    b->keys_count = keys_count;
    b->ids_size = ids - b->ids;
    return count;
}
