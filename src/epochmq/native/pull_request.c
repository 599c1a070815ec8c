/* Reads requests of PULL_MESSAGE (11) that want all messages of a queue. */
#include "request_header.h"

enum { PULL = 11, SUBSCRIPTION = 4, NAME_MAX_BYTES = 255, NAMES_MAX = 2 * NAME_MAX_BYTES + 1 };
enum { FRAME_MAX = 4096 }; /* a longer request is not usual */

/* What a pull asks for. Mirrored by broker/requests/native_pulls.py. */
typedef struct {
    int64_t opaque, queue_id, offset, count, sys_flag, commit_offset, sub_version;
    int64_t names_size;
    uint8_t names[NAMES_MAX]; /* group, a zero byte, topic */
} pull;

MIRRORED(pull);

/* Its fields while they are read. */
typedef struct {
    pull *pull;
    span group, topic;
    uint32_t seen;
    int wants_some; /* its subscription is not "all" */
} pull_fields;

/* The bits of `seen`; a pull has at least those below SUB_VERSION. */
enum {
    GROUP = 1, TOPIC = 2, QUEUE_ID = 4, OFFSET = 8, COUNT = 16, SYS_FLAG = 32, COMMIT = 64,
    SUSPEND = 128, SUB_VERSION = 256, TEXT = 512, TYPE = 1024
};

static uint32_t name_bit(span name)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } names[] = {
        {"consumerGroup", GROUP}, {"topic", TOPIC}, {"queueId", QUEUE_ID}, {"queueOffset", OFFSET},
        {"maxMsgNums", COUNT}, {"sysFlag", SYS_FLAG}, {"commitOffset", COMMIT},
        {"suspendTimeoutMillis", SUSPEND}, {"subVersion", SUB_VERSION}, {"subscription", TEXT},
        {"expressionType", TYPE},
    };
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (is_name(name, names[n].name))
            return names[n].bit;
    return 0;
}

/* One field; 0: not for the native code. */
static int read_value(pull_fields *f, uint32_t bit, span value)
{
    int64_t ignored;
    pull *p = f->pull;
    switch (bit) {
    case GROUP:
        f->group = value;
        return 1;
    case TOPIC:
        f->topic = value;
        return 1;
    case QUEUE_ID:
        return json_text_int(value, INT32_MIN, INT32_MAX, &p->queue_id);
    case OFFSET:
        return json_text_int(value, INT64_MIN, INT64_MAX, &p->offset);
    case COUNT:
        return json_text_int(value, INT32_MIN, INT32_MAX, &p->count);
    case SYS_FLAG:
        return json_text_int(value, INT32_MIN, INT32_MAX, &p->sys_flag);
    case COMMIT:
        return json_text_int(value, INT64_MIN, INT64_MAX, &p->commit_offset);
    case SUSPEND:
        return json_text_int(value, INT64_MIN, INT64_MAX, &ignored);
    case SUB_VERSION:
        return json_text_int(value, INT64_MIN, INT64_MAX, &p->sub_version);
    case TEXT:
        f->wants_some |= !is_name(value, "*");
        return 1;
    default:
        f->wants_some |= !is_name(value, "TAG");
        return 1;
    }
}

static int read_field(void *into, span name, span value, int escaped)
{
    pull_fields *f = into;
    uint32_t bit = name_bit(name);
    if (!bit)
        return 1; /* such as maxMsgBytes, or the broker's name */
    if (escaped || f->seen & bit || !read_value(f, bit, value))
        return 0;
    f->seen |= bit;
    return 1;
}

/* Reads the request at the start of `data`. Returns how many bytes it has; 0: not for the native code. */
int64_t epq_read_pull(pull *p, const uint8_t *data, int64_t size)
{
    const uint32_t needed = SUB_VERSION - 1;
    if (size < PREFIX)
        return 0;
    int64_t length = get32(data), header = get32(data + 4);
    /* A pull has no body. A binary header's type makes `header` larger than any. */
    if (header > FRAME_MAX || length != header + 4 || length > size - 4)
        return 0;
    request_head head;
    pull_fields f = {.pull = p};
    p->sub_version = 0;
    if (!read_head((span){data + PREFIX, header}, &head, read_field, &f) || head.code != PULL ||
        head.flag || (f.seen & needed) != needed)
        return 0;
    if (p->sys_flag & SUBSCRIPTION && (f.wants_some || !(f.seen & TEXT)))
        return 0;
    if (f.group.size > NAME_MAX_BYTES || f.topic.size > NAME_MAX_BYTES)
        return 0;
    p->opaque = head.opaque;
    uint8_t *to = copy(p->names, f.group.at, f.group.size);
    *to++ = 0;
    to = copy(to, f.topic.at, f.topic.size);
    p->names_size = to - p->names;
    return 4 + length;
}
