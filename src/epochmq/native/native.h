/* What all native code shares: the common case of append, send and decode, on plain bytes.
 *
 * The Python code is the reference. A function returns 0 for input that is unusual, too large, damaged or does
 * not fit, before anything outside the caller's buffers has changed. Python then does the whole work, so this
 * code never refuses a request by itself. No allocation, no I/O, no state except the CRC tables. Only
 * message_objects.c makes Python objects.
 *
 * All integers on the wire and on disk are big-endian. Structures that Python shares have the machine's byte
 * order; library.py declares them a second time and compares their sizes when it loads the library.
 */
#ifndef EPOCHMQ_NATIVE_H
#define EPOCHMQ_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "record_layout.h"

#define PREFIX 8            /* of a frame: its length, and the length of its header */
#define PAIR_END 0x02       /* between two properties */
#define NAME_END 0x01       /* between a property's name and its value */
#define PROPERTIES_MAX 32767
#define UNIT_BYTES 20
#define ITEM_BYTES 20
#define SLOTS_A_PAGE 1024

/* Tells Python the size of a structure that it lays out as well (library.py compares when it loads):
 * a field that only one side has is refused, not read as something else. */
#define MIRRORED(type) const int64_t epq_sizeof_##type = (int64_t)sizeof(type)

typedef struct {
    const uint8_t *at;
    int64_t size;
} span;

/* One index key of one message; 24 bytes, read by epq_index_put. */
typedef struct {
    int64_t offset; /* of the message in the log */
    int64_t wall;   /* its store time, ms */
    uint32_t hash;  /* Java's hash of topic#key, unsigned */
    uint32_t unused;
} index_key;

/* Why a message needs more work than an ordinary one; several may be true. */
enum { RARE_DELAY = 1, RARE_TRANSACTIONAL = 2, RARE_TIMED = 4, RARE_OTHERWISE = 8 };

/* The type of a message in the metrics, by what its sender asked for: RocketMQ's order. Mirrored by
 * broker/produce/send_properties.py. */
enum { TYPE_NORMAL, TYPE_FIFO, TYPE_DELAY, TYPE_TRANSACTION, MESSAGE_TYPES };

/* What the broker needs to know of a properties text; spans of size 0: none. */
typedef struct {
    span uniq_key;
    span keys; /* text of KEYS, not split yet */
    span group, transactional, delay, delay_sec, delay_ms, deliver_ms, out_ms, real_topic;
    int32_t tags_code;
    int wait; /* 0 when WAIT is given and not "true" */
    int rare; /* RARE_ bits */
    int sink; /* it is a sink's: to be told from its repeats (store/sinks.py) */
    span sink_id; /* of that, as model/sink_mark.py has it */
    span sink_batch;
    span sink_part;
    span sink_seq;
    int ours; /* a property that only brokers give: of messages that were put aside before */
    int sharded; /* __SHARDINGKEY */
    int later;   /* __STARTDELIVERTIME, which only RocketMQ's metrics know */
    int rolled;  /* TIMER_ROLL_TIMES */
    int cancels; /* TIMER_DEL_UNIQKEY */
} properties;

static inline void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xFFFF);
}

static inline void put64(uint8_t *at, uint64_t value)
{
    put32(at, (uint32_t)(value >> 32));
    put32(at + 4, (uint32_t)value);
}

static inline uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline uint32_t get32(const uint8_t *at) { return get16(at) << 16 | get16(at + 2); }

static inline uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

static inline int64_t get_i64(const uint8_t *at) { return (int64_t)get64(at); }

/* `size` bytes to `to`, which must have the room; where the next ones go. Nothing may be copied from
 * a null pointer, not even no bytes. */
static inline uint8_t *copy(uint8_t *to, const uint8_t *from, int64_t size)
{
    if (size > 0)
        memcpy(to, from, (size_t)size);
    return to + size;
}

/* Inline, so that the compiler knows the size of `text`. */
static inline uint8_t *put_literal(uint8_t *to, const char *text)
{
    return copy(to, (const uint8_t *)text, (int64_t)strlen(text));
}

/* crc.c */
void crc_init(void);
uint32_t crc_of(const uint8_t *at, size_t size); /* masked with 0x7FFFFFFF, as records carry it */

/* properties.c */
int utf8_is_sound(const uint8_t *at, int64_t size);
uint32_t hash_utf8(uint32_t hash, span text);
int read_properties(span text, properties *found);
int message_type(const properties *found);
int64_t digits_of(span text, int64_t most);
int64_t hash_keys(const properties *found, span other_key, uint32_t prefix, int64_t offset,
                  int64_t wall, index_key *keys, int64_t room);
void put_hex(uint8_t *at, uint64_t value);

/* send.c */
uint8_t *put_number(uint8_t *to, int64_t value);

#endif
