/* One turn's single sends, half messages and ends of transactions: what send.c, send_request.c and
 * send_special.c share. */
#ifndef EPOCHMQ_SEND_TURN_H
#define EPOCHMQ_SEND_TURN_H

#include "native.h"
#include "request_header.h"

enum { TOPIC_MAX = 127, SEND_TOPICS = 1024, TABLE = 4096, KEY_MAX = 64 };
enum { SEND_V2 = 310, END_TRANSACTION = 37, ONEWAY = 2 };

/* Where a message goes that does not simply go into its topic, and bits of `allowed`. Mirrored by
 * store/native_send.py. */
enum { HALF = 0, LEVELS = 1, TIMED = 2, SPECIALS = 3, ENDS = 3 };

/* What is added behind the properties of such a message has at most this much. */
enum { MORE_MAX = 512 };

/* Classes of the sizes of messages; how many were sent of each class, and the bytes of their records.
 * Mirrored by store/native_send.py. */
enum { SIZE_CLASSES = 7, SIZE_FIELDS = SIZE_CLASSES + 1 };

/* A topic that may be sent to, or a broker's own; its queues are the slots from `slot` on. */
typedef struct {
    uint8_t name[TOPIC_MAX + 1]; /* the record's topic field: length and text */
    int32_t queues, slot, sys_flag;
    uint32_t prefix; /* hash of topic# */
    int32_t allowed; /* which specials its messages may be, as bits */
} send_topic;

/* One queue: what this turn brings it, and what earlier turns brought it. Mirrored by store/native_send.py. */
typedef struct {
    int64_t next;       /* queue offset of the first; set by Python before epq_finish */
    int64_t delay;      /* ms until delivery, which its units carry; -1 for none; set likewise */
    int64_t count;      /* messages of this turn that are stored in it */
    int64_t unit;       /* where its units begin in `units`, in bytes */
    int64_t sent;       /* messages sent to it, wherever they are stored, since Python counted them */
    int64_t sent_bytes; /* of their records, as they would be without a detour */
} slot;

/* One message of the turn. */
typedef struct {
    int64_t at; /* of its record in `out` */
    int32_t size, slot, queue_id, opaque, tags_code, key_at, key_size, read;
} single;

/* One END_TRANSACTION of the turn; spans lie in `texts`. Mirrored by store/native_send.py. */
typedef struct {
    int64_t queue_offset, offset;
    int32_t how, unused; /* TX_COMMIT or TX_ROLLBACK */
    int32_t header_at, header_size, group_at, group_size, id_at, id_size, other_at, other_size;
} ending;

/* In: everything up to `precision`, and the buffers. Mirrored by library.py. */
typedef struct {
    span tail;   /* added to each message's properties; begins with PAIR_END */
    span host;   /* store host, 8 bytes */
    span id;     /* the same in hexadecimal */
    span middle; /* of an answer: from behind the key to before the opaque */
    span end;    /* of an answer: from behind the opaque */
    int64_t header_max, body_max, record_max;
    int64_t allowed;              /* specials that may be taken now, as bits; ENDS too */
    int64_t wall;                 /* when relative delays begin */
    int64_t delay_max, precision; /* of exact times, ms */
    uint8_t *out;
    int64_t out_max;
    single *singles;
    int64_t singles_max;
    index_key *keys;
    int64_t keys_max; /* 0: no index */
    slot *slots;
    int64_t slots_max;
    int32_t *touched; /* slots that this turn's messages are stored in, as many as there are slots */
    int32_t *counted; /* slots with messages that Python has not counted, as many as there are slots */
    int64_t *sizes;   /* SIZE_FIELDS for each of MESSAGE_TYPES of each of SEND_TOPICS */
    uint8_t *units;   /* one for each single */
    uint8_t *answers;
    int64_t answers_max;
    int64_t *ends; /* of each read's answers; as many as there are singles and endings */
    ending *endings;
    int64_t endings_max;
    uint8_t *texts; /* headers of endings */
    int64_t texts_max;
    int64_t out_size, count, keys_count, touched_count, reads, endings_count, texts_size;
    int64_t counted_count, slots_used, send_topics_used;
    int32_t special[SPECIALS]; /* numbers of send_topics + 1; 0: none */
    send_topic send_topics[SEND_TOPICS];
    int16_t table[TABLE]; /* number of a send_topic + 1, by hash of its topic */
} send_turn;

/* More fields than this have no send. */
enum { FIELDS_MAX = 32 };

/* One of the extFields. */
typedef struct {
    span name, value;
    int escaped; /* whether the value needs json_unescape */
} field;

/* The fields of a send's header or an end's, as far as they are needed. */
typedef struct {
    request_head head;
    span topic, properties;
    int64_t queue_id, sys_flag, born, user_flag, reconsumed;
    span group, id, other_id;
    int64_t queue_offset, offset, how;
    uint32_t sent, ended; /* which fields of a send, of an end were there; ended: 0 for odd ones */
    int fields_count;     /* may be more than FIELDS_MAX */
    field fields[FIELDS_MAX];
} request;

/* Where a message is stored, and what its properties get. */
typedef struct {
    const send_topic *send_topic;
    int64_t queue_id, sys_flag;
    int32_t tags_code;
    int64_t properties_max;
    int64_t size;
    uint8_t more[MORE_MAX];
} place;

/* Bytes of the log from `start` to `end`. Mirrored by library.py. */
typedef struct {
    const uint8_t *at;
    int64_t start, end;
} piece;

/* A record in it that is looked for. Mirrored by store/remake.py. */
typedef struct {
    int64_t offset, size;
    int64_t more; /* whatever the caller's purpose needs */
} source;

/* Its parts. */
typedef struct {
    const uint8_t *at;
    span body, text;
    properties found;
    span queue_id; /* the text of REAL_QID, found by rebuild_messages.c */
} stored;

/* waiting_messages.c */
int read_stored(const piece *log, const source *s, stored *r);
int64_t due_of(const stored *r);

/* send_request.c */
int read_request(span header, request *r);

/* send_special.c */
int reroute(const send_turn *d, const request *r, const properties *found, span text, place *to);

/* send.c */
const send_topic *send_topic_of(const send_turn *d, span topic);

/* Count a message that is stored in the slot of that number. */
static inline void count_stored(send_turn *d, int32_t number)
{
    if (!d->slots[number].count++)
        d->touched[d->touched_count++] = number;
}

/* Count a message that was sent to the slot of that number. */
static inline void count_sent(send_turn *d, int32_t number, int64_t bytes)
{
    slot *q = d->slots + number;
    if (!q->sent++)
        d->counted[d->counted_count++] = number;
    q->sent_bytes += bytes;
}

#endif
