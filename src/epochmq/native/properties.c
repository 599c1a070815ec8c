/* Properties, keys and Java's string hash, on UTF-8 (model/properties.py). */
#include "native.h"

/* The code point at `at`, which is sound UTF-8; its bytes go to `width`. */
static uint32_t code_point(const uint8_t *at, int *width)
{
    if (at[0] < 0x80) {
        *width = 1;
        return at[0];
    }
    if (at[0] < 0xE0) {
        *width = 2;
        return (uint32_t)(at[0] & 0x1F) << 6 | (at[1] & 0x3F);
    }
    if (at[0] < 0xF0) {
        *width = 3;
        return (uint32_t)(at[0] & 0x0F) << 12 | (uint32_t)(at[1] & 0x3F) << 6 | (at[2] & 0x3F);
    }
    *width = 4;
    return (uint32_t)(at[0] & 0x07) << 18 | (uint32_t)(at[1] & 0x3F) << 12 |
           (uint32_t)(at[2] & 0x3F) << 6 | (at[3] & 0x3F);
}

/* Whether the bytes are UTF-8 as Python takes it: shortest forms, no surrogates, up to U+10FFFF. */
int utf8_is_sound(const uint8_t *at, int64_t size)
{
    int64_t pos = 0;
    while (pos < size) {
        uint64_t eight;
        if (size - pos >= 8) {
            memcpy(&eight, at + pos, 8);
            if (!(eight & 0x8080808080808080u)) {
                pos += 8;
                continue;
            }
        }
        uint8_t first = at[pos];
        if (first < 0x80) {
            pos++;
            continue;
        }
        int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || size - pos <= more)
            return 0;
        for (int n = 1; n <= more; n++)
            if ((at[pos + n] & 0xC0) != 0x80)
                return 0;
        uint8_t second = at[pos + 1];
        if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
            (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
            return 0;
        pos += 1 + more;
    }
    return 1;
}

/* Java's String.hashCode of `text` (sound UTF-8) behind a text that hashes to `hash`: over UTF-16. */
uint32_t hash_utf8(uint32_t hash, span text)
{
    const uint8_t *at = text.at, *end = text.at + text.size;
    while (at < end) {
        if (end - at >= 4 && !((at[0] | at[1] | at[2] | at[3]) & 0x80)) {
            hash = 923521 * hash + (29791u * at[0] + 961u * at[1] + 31u * at[2] + at[3]);
            at += 4;
            continue;
        }
        if (*at < 0x80) {
            hash = 31 * hash + *at++;
            continue;
        }
        int width;
        uint32_t point = code_point(at, &width);
        if (point >= 0x10000) {
            hash = 31 * hash + (0xD800 + ((point - 0x10000) >> 10));
            point = 0xDC00 + (point & 0x3FF);
        }
        hash = 31 * hash + point;
        at += width;
    }
    return hash;
}

static int is(span text, const char *name)
{
    size_t size = strlen(name);
    return text.size == (int64_t)size && memcmp(text.at, name, size) == 0;
}

static int is_true(span text)
{
    static const char lower[] = "true";
    if (text.size != 4)
        return 0;
    for (int n = 0; n < 4; n++)
        if ((text.at[n] | 0x20) != lower[n])
            return 0;
    return 1;
}

/* Notes the properties that Python must examine (_RARE of broker/produce/send_properties.py, without
 * __SINK_ID), and those that only brokers give to half, delayed and timer messages. */
static void read_rare(span name, span value, properties *found)
{
    static const char *const rare[] = {"MSG_REGION", "TRACE_ON", "CLUSTER", "POP_CK", "INNER_NUM"};
    static const char *const ours[] = {"REAL_QID", "TRAN_PREPARED_QUEUE_OFFSET",
                                       "TRANSACTION_CHECK_TIMES", "__transactionId__",
                                       "__ESCAPE_ID"};
    if (is(name, "DELAY")) {
        found->rare |= RARE_DELAY;
        found->delay = value;
    } else if (is(name, "TRAN_MSG")) {
        found->rare |= RARE_TRANSACTIONAL;
        found->transactional = value;
    } else if (is(name, "TIMER_DELAY_SEC")) {
        found->rare |= RARE_TIMED;
        found->delay_sec = value;
    } else if (is(name, "TIMER_DELAY_MS")) {
        found->rare |= RARE_TIMED;
        found->delay_ms = value;
    } else if (is(name, "TIMER_DELIVER_MS")) {
        found->rare |= RARE_TIMED;
        found->deliver_ms = value;
    } else if (is(name, "TIMER_OUT_MS")) {
        found->ours = 1;
        found->out_ms = value;
    } else if (is(name, "REAL_TOPIC")) {
        found->ours = 1;
        found->real_topic = value;
    } else if (is(name, "TIMER_DEL_UNIQKEY")) {
        found->ours = found->cancels = 1;
    } else if (is(name, "TIMER_ROLL_TIMES"))
        found->rolled = 1;
    for (size_t n = 0; n < sizeof rare / sizeof *rare; n++)
        if (is(name, rare[n]))
            found->rare |= RARE_OTHERWISE;
    for (size_t n = 0; n < sizeof ours / sizeof *ours; n++)
        if (is(name, ours[n]))
            found->ours = 1;
}

static void read_sink(span name, span value, properties *found)
{
    if (is(name, "__SINK_ID")) {
        found->rare |= RARE_OTHERWISE;
        found->sink = 1;
        found->sink_id = value;
    } else if (is(name, "__SINK_BATCH")) {
        found->sink_batch = value;
    } else if (is(name, "__SINK_PART")) {
        found->sink_part = value;
    } else if (is(name, "__SINK_SEQ")) {
        found->sink_seq = value;
    }
}

static void read_pair(span name, span value, properties *found)
{
    switch (name.at[0]) {
    case 'U':
        if (is(name, "UNIQ_KEY"))
            found->uniq_key = value;
        break;
    case 'K':
        if (is(name, "KEYS"))
            found->keys = value;
        break;
    case 'T':
        if (is(name, "TAGS"))
            found->tags_code = (int32_t)hash_utf8(0, value);
        else
            read_rare(name, value, found);
        break;
    case 'W':
        if (is(name, "WAIT"))
            found->wait = is_true(value);
        break;
    case '_':
        if (name.size > 6 && !memcmp(name.at, "__SINK", 6))
            read_sink(name, value, found);
        else if (is(name, "__SHARDINGKEY"))
            found->sharded = 1;
        else if (is(name, "__STARTDELIVERTIME"))
            found->later = 1;
        else
            read_rare(name, value, found);
        break;
    case 'P':
        if (is(name, "PGROUP"))
            found->group = value;
        else
            read_rare(name, value, found);
        break;
    case 'C':
    case 'D':
    case 'I':
    case 'M':
    case 'R':
        read_rare(name, value, found);
    }
}

/* Reads a properties text, the last pair of a name winning and pairs without a value not counting;
 * 0 when it is not sound UTF-8 or holds a NUL. */
int read_properties(span text, properties *found)
{
    memset(found, 0, sizeof *found);
    found->wait = 1;
    if (text.size == 0)
        return 1;
    if (memchr(text.at, 0, (size_t)text.size) || !utf8_is_sound(text.at, text.size))
        return 0;
    const uint8_t *at = text.at, *end = text.at + text.size;
    while (at < end) {
        const uint8_t *stop = memchr(at, PAIR_END, (size_t)(end - at));
        if (!stop)
            stop = end;
        const uint8_t *mid = memchr(at, NAME_END, (size_t)(stop - at));
        if (mid && mid > at && mid + 1 < stop) {
            span name = {at, mid - at}, value = {mid + 1, stop - mid - 1};
            read_pair(name, value, found);
        }
        at = stop + 1;
    }
    return 1;
}

/* The type of a message with these properties. */
int message_type(const properties *found)
{
    if (is_true(found->transactional))
        return TYPE_TRANSACTION;
    if (found->sharded)
        return TYPE_FIFO;
    return found->later || found->rare & (RARE_DELAY | RARE_TIMED) ? TYPE_DELAY : TYPE_NORMAL;
}

/* The index keys of a message: its UNIQ_KEY (else `other_key`), then the words of KEYS between blanks.
 * How many, or -1 when there is no room. */
int64_t hash_keys(const properties *found, span other_key, uint32_t prefix, int64_t offset,
                  int64_t wall, index_key *keys, int64_t room)
{
    int64_t count = 0;
    span word = found->uniq_key.size ? found->uniq_key : other_key;
    const uint8_t *at = found->keys.at, *end = at + found->keys.size;
    for (;;) {
        if (word.size) {
            if (count == room)
                return -1;
            index_key key = {offset, wall, hash_utf8(prefix, word), 0};
            keys[count++] = key;
        }
        if (at == end)
            return count;
        while (at < end && *at == ' ')
            at++;
        word.at = at;
        while (at < end && *at != ' ')
            at++;
        word.size = at - word.at;
    }
}

/* The value of up to `most` plain digits, at most 18; -1 for anything else. */
int64_t digits_of(span text, int64_t most)
{
    int64_t value = 0;
    if (text.size < 1 || text.size > most)
        return -1;
    for (int64_t n = 0; n < text.size; n++) {
        if (text.at[n] < '0' || text.at[n] > '9')
            return -1;
        value = value * 10 + (text.at[n] - '0');
    }
    return value;
}

/* 16 upper-case hexadecimal digits. */
void put_hex(uint8_t *at, uint64_t value)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int n = 15; n >= 0; n--, value >>= 4)
        at[n] = (uint8_t)digits[value & 15];
}
