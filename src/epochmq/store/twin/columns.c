/* Columns of many records for the Spark decoder in one call: numbers and times out of the heads,
 * bodies, topics, hosts as text, and the broker's name in each row; and whether all have one topic.
 * spark/decode_columns.py does the same.
 *
 * A column that is not wanted has no place. It gives up, without a verdict, at a time that is no date
 * and at a topic that is no sound UTF-8.
 */
#include "twin.h"

enum {
    BODY_AT = 88,
    BORN_TIME_AT = 40,
    BORN_HOST_AT = 48,
    STORE_TIME_AT = 56,
    STORE_HOST_AT = 64,
    HOST = 8,
    HOST_TEXT = 32, /* "255.255.255.255:4294967295" has 26 */
    KNOWN_BITS = 9, /* so many hosts are remembered, by their hashes: 512 */
    KNOWN = 1 << KNOWN_BITS,
    BLOCK = 16      /* a topic is copied by so many bytes: no call */
};

#define TIME_MS_MIN (-62135596800000)
#define TIME_MS_MAX 253402300799999

static const int INT32_AT[] = {12, 16, 36, 8, 72};  /* queueId flag sysFlag bodyCRC reconsumeTimes */
static const int INT64_AT[] = {20, 28, 76};         /* queueOffset commitLogOffset prepared...     */
static const int TIME_AT[] = {BORN_TIME_AT, STORE_TIME_AT};
static const int HOST_AT[] = {BORN_HOST_AT, STORE_HOST_AT};

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct {
    int32_t *bounds; /* one more than rows */
    uint8_t *data;
} cells;

/* In: everything. Out: what the pointers name. Mirrored by decode_made.py. */
typedef struct {
    const uint8_t *bytes;
    int64_t rows;
    const int64_t *begins; /* of records with two IPv4 hosts */
    const int64_t *bodies; /* where their bodies end */
    const int64_t *topics; /* where their topics begin */
    const int64_t *tails;  /* and end */
    int64_t one_topic;     /* whether all have the same */
    int32_t *int32s[5];
    int64_t *int64s[3];
    int64_t *times[2];     /* born, stored; microseconds */
    cells body;
    cells hosts[2];        /* room for 26 bytes each, and 32 more */
    cells topic;           /* room for all, and a block more */
    cells broker;
    span broker_name;
} columns;

typedef struct {
    uint64_t host;
    int64_t size; /* 0: none yet */
    uint8_t text[HOST_TEXT];
} known_host;

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
static void put_hosts(const columns *c, const cells *column, int at)
{
    known_host known[KNOWN] = {0};
    uint8_t *to = column->data;
    column->bounds[0] = 0;
    for (int64_t row = 0; row < c->rows; row++) {
        const uint8_t *host = c->bytes + c->begins[row] + at;
        uint64_t word = get64(host);
        known_host *seen = &known[(word * 0x9E3779B97F4A7C15u) >> (64 - KNOWN_BITS)];
        if (!seen->size || seen->host != word) {
            seen->host = word;
            seen->size = write_host(seen->text, host);
        }
        memcpy(to, seen->text, HOST_TEXT); /* of one size: no call; the next one begins earlier */
        to += seen->size;
        column->bounds[row + 1] = (int32_t)(to - column->data);
    }
}

/* 0 when a time is no date. All of a head at once, while it is in the cache. */
static int put_numbers(const columns *c)
{
    for (int64_t row = 0; row < c->rows; row++) {
        const uint8_t *head = c->bytes + c->begins[row];
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

/* Mostly one topic is in all of them: it is looked at once. 0 when one is no text. */
static int put_topics(const columns *c)
{
    uint8_t known[256 + BLOCK], *to = c->topic.data;
    int64_t size = -1;
    c->topic.bounds[0] = 0;
    for (int64_t row = 0; row < c->rows; row++) {
        span text = {c->bytes + c->topics[row], c->tails[row] - c->topics[row]};
        if (text.size != size || memcmp(text.at, known, (size_t)size) != 0) {
            size = text.size;
            if (size > 256 || !utf8_is_sound(text.at, size))
                return 0;
            copy(known, text.at, size);
        }
        for (int64_t at = 0; at < size; at += BLOCK)
            memcpy(to + at, known + at, BLOCK);
        to += size;
        c->topic.bounds[row + 1] = (int32_t)(to - c->topic.data);
    }
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

static void put_bodies(const columns *c)
{
    uint8_t *to = c->body.data;
    c->body.bounds[0] = 0;
    for (int64_t row = 0; row < c->rows; row++) {
        int64_t at = c->begins[row] + BODY_AT;
        to = copy(to, c->bytes + at, c->bodies[row] - at);
        c->body.bounds[row + 1] = (int32_t)(to - c->body.data);
    }
}

/* 1 when all rows, of which there is one at least, were taken. */
int64_t epq_columns(columns *c)
{
    if (!put_numbers(c) || (c->topic.bounds && !put_topics(c)))
        return 0;
    for (int n = 0; n < LENGTH(HOST_AT); n++)
        if (c->hosts[n].bounds)
            put_hosts(c, &c->hosts[n], HOST_AT[n]);
    if (c->body.bounds)
        put_bodies(c);
    if (c->broker.bounds)
        put_broker(c);
    c->one_topic = !c->topic.bounds && have_one_topic(c);
    return 1;
}
