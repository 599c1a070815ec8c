/* Keys into an index file that is held in memory (store/index_file.py, put). */
#include "native.h"

#define SECONDS_MAX 0x7FFFFFFF

/* In: all but `used`. The first `count` keys are added, for which the caller has made room. */
typedef struct {
    const index_key *keys;
    int64_t count;
    int32_t *slots; /* number of the newest item of each slot, native order */
    int64_t slots_max;
    uint8_t *dirty; /* a byte for each page of slots */
    int64_t number; /* of the first item to be made */
    int64_t first_wall;
    uint8_t *items; /* out: hash i32, log offset i64, seconds i32, previous item i32, each */
    int64_t used;   /* out: slots that had no item before */
} index_put;
MIRRORED(index_put);
MIRRORED(index_key);

/* Java's abs(): that of the smallest number is 0 here. */
static uint32_t positive(uint32_t hash)
{
    if (hash & 0x80000000u)
        hash = 0 - hash;
    return hash < 0x80000000u ? hash : 0;
}

void epq_index_put(index_put *p)
{
    int64_t number = p->number;
    p->used = 0;
    for (int64_t n = 0; n < p->count; n++, number++) {
        const index_key *key = p->keys + n;
        uint8_t *item = p->items + n * ITEM_BYTES;
        uint32_t hash = positive(key->hash);
        int64_t slot = hash % p->slots_max, seconds = (key->wall - p->first_wall) / 1000;
        int32_t previous = p->slots[slot];
        if (previous <= 0 || previous >= number) {
            previous = 0;
            p->used++;
        }
        put32(item, hash);
        put64(item + 4, (uint64_t)key->offset);
        put32(item + 12, (uint32_t)(seconds < 0 ? 0 : seconds > SECONDS_MAX ? SECONDS_MAX : seconds));
        put32(item + 16, (uint32_t)previous);
        p->slots[slot] = (int32_t)number;
        p->dirty[slot / SLOTS_A_PAGE] = 1;
    }
}
