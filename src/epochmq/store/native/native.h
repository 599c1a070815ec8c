/* The native code of the append: what Python does for the common case, done on plain bytes.
 *
 * Python is the reference. Whatever is unusual, too large, damaged or does not fit is answered with
 * "not mine" (0) before anything outside the caller's buffers has changed; Python then does it all
 * over again, so no refusal is ever made here. No allocation, no I/O, no state but the CRC tables.
 *
 * All integers on the wire and on disk are big-endian; structures
 * shared with Python are in the machine's own order and mirrored in library.py.
 */
#ifndef EPOCHMQ_NATIVE_H
#define EPOCHMQ_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PAIR_END 0x02       /* between two properties */
#define NAME_END 0x01       /* between a property's name and its value */
#define PROPERTIES_MAX 32767
#define UNIT_BYTES 20
#define ITEM_BYTES 20
#define SLOTS_A_PAGE 1024

/* Where fields of a record's head lie, whatever its hosts. */
#define SIZE_AT 0
#define CRC_AT 8
#define QUEUE_ID_AT 12
#define FLAG_AT 16
#define QUEUE_OFFSET_AT 20
#define OFFSET_AT 28

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

/* What the broker needs to know of a properties text; spans of size 0: none. */
typedef struct {
    span uniq_key;
    span keys; /* text of KEYS, not split yet */
    span group, transactional, delay, delay_sec, delay_ms, deliver_ms, out_ms, real_topic;
    int32_t tags_code;
    int wait; /* 0 when WAIT is given and not "true" */
    int rare; /* RARE_ bits */
    int sink; /* it is a sink's: to be told from its repeats (sinks.py) */
    span sink_id; /* of that, as model/sink_mark.py has it */
    span sink_batch;
    span sink_part;
    span sink_seq;
    int ours; /* a property that only brokers give: of messages that were put aside before */
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

/* `size` bytes to `to`, which must have the room; where the next ones go. Nothing may be copied from
 * a null pointer, not even no bytes. */
static inline uint8_t *copy(uint8_t *to, const uint8_t *from, int64_t size)
{
    if (size > 0)
        memcpy(to, from, (size_t)size);
    return to + size;
}

/* crc.c */
void crc_init(void);
uint32_t crc_of(const uint8_t *at, size_t size); /* masked with 0x7FFFFFFF, as records carry it */

/* text.c */
int utf8_is_sound(const uint8_t *at, int64_t size);
uint32_t hash_utf8(uint32_t hash, span text);
int read_properties(span text, properties *found);
int64_t digits_of(span text, int64_t most);
int64_t hash_keys(const properties *found, span other_key, uint32_t prefix, int64_t offset,
                  int64_t wall, index_key *keys, int64_t room);
void put_hex(uint8_t *at, uint64_t value);

#endif
