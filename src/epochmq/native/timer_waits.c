/* Reads due time and real topic of messages of the timer topic, for the timer wheel
 * (broker/delay/timed.py does the same). */
#include "send_turn.h"

/* What the wheel needs of one. Mirrored by store/waits.py. */
typedef struct {
    int64_t queue_offset, store, due;
    int64_t topic_at; /* of the text of its real topic, in the log */
    int32_t topic_size, topic_hash;
} waiting;

/* Mirrored by library.py. */
typedef struct {
    piece log;
    const source *sources;
    int64_t count;
    waiting *out;
} waits;
MIRRORED(waits);
MIRRORED(waiting);

static int is_timed(const stored *r)
{
    static const char topic[] = "rmq_sys_wheel_timer";
    const uint8_t *name = r->body.at + r->body.size;
    return name[0] == sizeof topic - 1 && !memcmp(name + 1, topic, name[0]);
}

/* Read the records of `sources`, in order, until one is not ordinary or cancels others; how many. */
int64_t epq_waits(const waits *w)
{
    int64_t n = 0;
    for (; n < w->count; n++) {
        stored r;
        if (!read_stored(&w->log, w->sources + n, &r) || !is_timed(&r) || r.found.cancels ||
            !r.found.real_topic.size || r.found.real_topic.size > TOPIC_MAX)
            break;
        waiting *out = w->out + n;
        out->due = due_of(&r);
        if (out->due < 0)
            break;
        out->queue_offset = get_i64(r.at + QUEUE_OFFSET_AT);
        out->store = get_i64(r.at + STORE_TIME_AT);
        out->topic_at = w->log.start + (r.found.real_topic.at - w->log.at);
        out->topic_size = (int32_t)r.found.real_topic.size;
        out->topic_hash = (int32_t)hash_utf8(0, r.found.real_topic);
    }
    return n;
}
