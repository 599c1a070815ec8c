/* Columns of many records for the Spark decoder in one call: numbers and times out of the heads,
 * bodies, topics, hosts as text, and the broker's name in each row; and whether all have one topic.
 * spark/decode_columns.py does the same.
 *
 * A column that is not wanted has no place. It gives up, without a verdict, at a time that is no date
 * and at a topic that is no sound UTF-8.
 */
#include "rows.h"

MIRRORED(columns);

enum {
    BORN_TIME_AT = 40,
    BORN_HOST_AT = 48,
    STORE_TIME_AT = 56,
    STORE_HOST_AT = 64
};

#define TIME_MS_MIN (-62135596800000)
#define TIME_MS_MAX 253402300799999

static const int INT32_AT[] = {12, 16, 36, 8, 72};  /* queueId flag sysFlag bodyCRC reconsumeTimes */
static const int INT64_AT[] = {20, 28, 76};         /* queueOffset commitLogOffset prepared...     */
static const int TIME_AT[] = {BORN_TIME_AT, STORE_TIME_AT};
static const int HOST_AT[] = {BORN_HOST_AT, STORE_HOST_AT};

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

static uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

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

/* 0 when a time is no date. */
static int put_numbers(const columns *c, int64_t row, const uint8_t *head)
{
    for (int n = 0; n < LENGTH(INT32_AT); n++)
        if (c->int32s[n])
            c->int32s[n][row] = (int32_t)get32(head + INT32_AT[n]);
    for (int n = 0; n < LENGTH(INT64_AT); n++)
        if (c->int64s[n])
            c->int64s[n][row] = (int64_t)get64(head + INT64_AT[n]);
    for (int n = 0; n < LENGTH(TIME_AT); n++)
        if (c->times[n]) {
            int64_t ms = (int64_t)get64(head + TIME_AT[n]);
            if (ms < TIME_MS_MIN || ms > TIME_MS_MAX)
                return 0;
            c->times[n][row] = ms * 1000;
        }
    return 1;
}

static int have_one_topic(const columns *c)
{
    int64_t size = c->tails[0] - c->topics[0];
    for (int64_t row = 1; row < c->rows; row++)
        if (c->tails[row] - c->topics[row] != size ||
            memcmp(c->bytes + c->topics[row], c->bytes + c->topics[0], (size_t)size) != 0)
            return 0;
    return 1;
}

/* Mostly one topic is in all of them: it is looked at once. 0 when it is no text. */
static int put_topic(const columns *c, column_work *w, int64_t row, span text)
{
    if (text.size != w->topic_size || memcmp(text.at, w->topic, (size_t)text.size) != 0) {
        if (text.size > 256 || !utf8_is_sound(text.at, text.size))
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
                int64_t body_size, span topic)
{
    if (!put_numbers(c, row, record) || (c->topic.bounds && !put_topic(c, w, row, topic)))
        return 0;
    for (int n = 0; n < LENGTH(HOST_AT); n++)
        if (c->hosts[n].bounds)
            put_host(&c->hosts[n], w->hosts[n], row, record + HOST_AT[n]);
    if (c->body.bounds) {
        copy(c->body.data + c->body.bounds[row], record + RECORD_HEAD, body_size);
        c->body.bounds[row + 1] = (int32_t)(c->body.bounds[row] + body_size);
    }
    return 1;
}

void columns_end(const columns *c)
{
    if (c->broker.bounds)
        put_broker(c);
}

/* 1 when all rows, of which there is one at least, were taken. */
int64_t epq_columns(columns *c)
{
    column_work work;
    columns_begin(c, &work);
    for (int64_t row = 0; row < c->rows; row++) {
        int64_t begin = c->begins[row];
        span topic = {c->bytes + c->topics[row], c->tails[row] - c->topics[row]};
        if (!columns_put(c, &work, row, c->bytes + begin, c->bodies[row] - begin - RECORD_HEAD,
                         topic))
            return 0;
    }
    columns_end(c);
    c->one_topic = !c->topic.bounds && have_one_topic(c);
    return 1;
}
