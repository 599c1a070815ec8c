/* Copies records without their bodies, for readers that need no bodies: only two sizes and the body differ.
 *
 * A batch that is stored as one record keeps its body, because the body has its messages. Bytes behind anything
 * that is not a complete record are copied unchanged; the reader finds out what they are.
 */
#include "native.h"

enum {
    KEPT_WHOLE = 0x80,
    TAIL_LEAST = 3     /* a topic's size and that of the properties */
};

/* The `size` bytes of records at `at`, to `to`, which has as much room; how many it became. */
int64_t epq_bare(const uint8_t *at, int64_t size, uint8_t *to)
{
    const uint8_t *end = at + size;
    uint8_t *begin = to;
    while (end - at >= BODY_SIZE_AT) {
        int64_t whole = get32(at);
        uint32_t magic = get32(at + MAGIC_AT), flags = get32(at + SYS_FLAG_AT);
        int64_t body_size_at = BODY_SIZE_AT + (flags & BORN_V6 ? V6_MORE : 0) +
                               (flags & STORE_V6 ? V6_MORE : 0);
        int64_t head = body_size_at + 4;
        if ((magic != MAGIC_V1 && magic != MAGIC_V2) || whole > end - at ||
            head + TAIL_LEAST > whole)
            break;
        int64_t body = get32(at + body_size_at);
        if (body > whole - head - TAIL_LEAST)
            break;
        if (flags & KEPT_WHOLE)
            body = 0;
        copy(to, at, head);
        if (body) {
            put32(to + SIZE_AT, (uint32_t)(whole - body));
            put32(to + body_size_at, 0);
            to = copy(to + head, at + head + body, whole - head - body);
        } else {
            to = copy(to, at, whole);
        }
        at += whole;
    }
    return copy(to, at, end - at) - begin;
}

/* Whether the `size` bytes at `at` are records whose bodies have their checksums. */
int64_t epq_bodies(const uint8_t *at, int64_t size)
{
    const uint8_t *end = at + size;
    while (at < end) {
        if (end - at < BODY_SIZE_AT)
            return 0;
        int64_t whole = get32(at);
        uint32_t magic = get32(at + MAGIC_AT), flags = get32(at + SYS_FLAG_AT);
        int64_t head = BODY_SIZE_AT + 4 + (flags & BORN_V6 ? V6_MORE : 0) +
                       (flags & STORE_V6 ? V6_MORE : 0);
        if ((magic != MAGIC_V1 && magic != MAGIC_V2) || whole > end - at ||
            head + TAIL_LEAST > whole)
            return 0;
        int64_t body = get32(at + head - 4);
        if (body > whole - head - TAIL_LEAST || crc_of(at + head, (size_t)body) != get32(at + CRC_AT))
            return 0;
        at += whole;
    }
    return 1;
}
