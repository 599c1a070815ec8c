/* The columns of a record that need no properties, for the Spark decoder: numbers and times of the head, body,
 * topic, hosts as text, and the broker's name. spark/decode_columns.py does the same.
 *
 * A column that is not wanted has a null pointer. The function returns 0 for a time that is no date, a topic that
 * is too long or not valid UTF-8, and an IPv4 address in the form of an IPv6 address.
 */
#include "arrow_rows.h"

#define TIME_MS_MIN (-62135596800000)
#define TIME_MS_MAX 253402300799999

static const int INT32_AT[] = {QUEUE_ID_AT, FLAG_AT, SYS_FLAG_AT, CRC_AT, RECONSUME_AT};
static const int INT64_AT[] = {QUEUE_OFFSET_AT, OFFSET_AT, PREPARED_AT};
static const int TIME_AT[] = {BORN_TIME_AT, STORE_TIME_AT};
static const int HOST_AT[] = {BORN_HOST_AT, STORE_HOST_AT};

/* Compiled once for IPv4 hosts, where the places are constants, and once for all others. */
#define ALWAYS inline __attribute__((always_inline))
#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

/* The field that is at `at` with IPv4 hosts: longer hosts move what follows them. */
static ALWAYS const uint8_t *field(const uint8_t *record, int64_t born_more, int64_t store_more, int at)
{
    return record + at + (at > BORN_HOST_AT ? born_more : 0) + (at > STORE_HOST_AT ? store_more : 0);
}

static uint8_t *put_decimal(uint8_t *to, uint32_t number)
{
    uint8_t digits[10];
    int count = 0;
    do
        digits[count++] = (uint8_t)('0' + number % 10);
    while (number /= 10);
    while (count)
        *to++ = digits[--count];
    return to;
}

static int64_t write_host(uint8_t *to, const uint8_t *host)
{
    uint8_t *at = to;
    for (int n = 0; n < 4; n++) {
        at = put_decimal(at, host[n]);
        *at++ = n < 3 ? '.' : ':';
    }
    return put_decimal(at, get32(host + 4)) - to;
}

static uint8_t *put_group(uint8_t *to, uint32_t group)
{
    int shift = group > 0xFFF ? 12 : group > 0xFF ? 8 : group > 0xF ? 4 : 0;
    for (; shift >= 0; shift -= 4)
        *to++ = (uint8_t)"0123456789abcdef"[group >> shift & 15];
    return to;
}

/* As RFC 5952 has it: "::" in place of the first of the longest runs of two zero groups or more. */
static int64_t write_host6(uint8_t *to, const uint8_t *host)
{
    int begin = 8, longest = 1;
    for (int n = 0, end; n < 8; n = end + 1) {
        for (end = n; end < 8 && !get16(host + 2 * end); end++)
            ;
        if (end - n > longest) {
            begin = n;
            longest = end - n;
        }
    }
    uint8_t *at = to;
    *at++ = '[';
    for (int n = 0; n < 8; n++) {
        if (n || n == begin)
            *at++ = ':';
        if (n != begin)
            at = put_group(at, get16(host + 2 * n));
        else if ((n += longest - 1) == 7)
            *at++ = ':';
    }
    *at++ = ']';
    *at++ = ':';
    return put_decimal(at, get32(host + 16)) - to;
}

/* Whether it is an IPv4 address, of which versions of Python differ in what they show. */
static int is_mapped(const uint8_t *host)
{
    return !get64(host) && get32(host + 8) == 0xFFFF;
}

/* Few hosts write many messages: each is written out about once. */
static void put_host(const cells *column, known_host *known, int64_t row, const uint8_t *host)
{
    uint8_t *to = column->data + column->bounds[row];
    uint64_t word = get64(host);
    known_host *seen = &known[(word * 0x9E3779B97F4A7C15u) >> (64 - KNOWN_BITS)];
    if (!seen->size || seen->host != word) {
        seen->host = word;
        seen->size = write_host(seen->text, host);
    }
    memcpy(to, seen->text, HOST_TEXT); /* of one size: no call; the next one begins earlier */
    column->bounds[row + 1] = (int32_t)(column->bounds[row] + seen->size);
}

/* 0 when it is not for this. */
static int put_host6(const cells *column, int64_t row, const uint8_t *host)
{
    if (is_mapped(host))
        return 0;
    int64_t size = write_host6(column->data + column->bounds[row], host);
    column->bounds[row + 1] = (int32_t)(column->bounds[row] + size);
    return 1;
}

/* Numbers, times and hosts; 0 when it is not for this. */
static ALWAYS int put_head(const columns *c, column_work *w, int64_t row, const uint8_t *record,
                           int64_t born_more, int64_t store_more)
{
    const int64_t more[] = {born_more, store_more};
    for (int n = 0; n < LENGTH(INT32_AT); n++)
        if (c->int32s[n])
            c->int32s[n][row] = (int32_t)get32(field(record, born_more, store_more, INT32_AT[n]));
    for (int n = 0; n < LENGTH(INT64_AT); n++)
        if (c->int64s[n])
            c->int64s[n][row] = get_i64(field(record, born_more, store_more, INT64_AT[n]));
    for (int n = 0; n < LENGTH(TIME_AT); n++)
        if (c->times[n]) {
            int64_t ms = get_i64(field(record, born_more, store_more, TIME_AT[n]));
            if (ms < TIME_MS_MIN || ms > TIME_MS_MAX)
                return 0;
            c->times[n][row] = ms * 1000;
        }
    for (int n = 0; n < LENGTH(HOST_AT); n++)
        if (c->hosts[n].bounds) {
            const uint8_t *host = field(record, born_more, store_more, HOST_AT[n]);
            if (!more[n])
                put_host(&c->hosts[n], w->hosts[n], row, host);
            else if (!put_host6(&c->hosts[n], row, host))
                return 0;
        }
    return 1;
}

/* Mostly one topic is in all of them: it is looked at once. 0 when it is not for this. */
static int put_topic(const columns *c, column_work *w, int64_t row, span text)
{
    if (text.size != w->topic_size || memcmp(text.at, w->topic, (size_t)text.size) != 0) {
        if (text.size > TOPIC_MAX || !utf8_is_sound(text.at, text.size))
            return 0;
        w->topic_size = text.size;
        copy(w->topic, text.at, text.size);
    }
    uint8_t *to = c->topic.data + c->topic.bounds[row];
    for (int64_t at = 0; at < text.size; at += BLOCK)
        memcpy(to + at, w->topic + at, BLOCK);
    c->topic.bounds[row + 1] = (int32_t)(c->topic.bounds[row] + text.size);
    return 1;
}

static void put_broker(const columns *c)
{
    int64_t size = c->broker_name.size, whole = size * c->rows, done = size;
    copy(c->broker.data, c->broker_name.at, size);
    for (; done < whole; done *= 2)
        copy(c->broker.data + done, c->broker.data, done < whole - done ? done : whole - done);
    for (int64_t row = 0; row <= c->rows; row++)
        c->broker.bounds[row] = (int32_t)(row * size);
}

void columns_begin(const columns *c, column_work *w)
{
    w->topic_size = -1;
    memset(w->topic, 0, sizeof w->topic);
    for (int n = 0; n < LENGTH(HOST_AT); n++)
        if (c->hosts[n].bounds) {
            memset(w->hosts[n], 0, sizeof w->hosts[n]);
            c->hosts[n].bounds[0] = 0;
        }
    if (c->topic.bounds)
        c->topic.bounds[0] = 0;
    if (c->body.bounds)
        c->body.bounds[0] = 0;
}

int columns_put(const columns *c, column_work *w, int64_t row, const uint8_t *record,
                const parts *its)
{
    span topic = {record + its->topic_at, its->topic_to - its->topic_at};
    int done = its->born_more | its->store_more
                   ? put_head(c, w, row, record, its->born_more, its->store_more)
                   : put_head(c, w, row, record, 0, 0);
    if (!done || (c->topic.bounds && !put_topic(c, w, row, topic)))
        return 0;
    if (c->body.bounds) {
        int64_t size = its->body_to - its->body_at;
        copy(c->body.data + c->body.bounds[row], record + its->body_at, size);
        c->body.bounds[row + 1] = (int32_t)(c->body.bounds[row] + size);
    }
    return 1;
}

void columns_end(const columns *c)
{
    if (c->broker.bounds)
        put_broker(c);
}
