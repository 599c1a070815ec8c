/* The properties of many records for the Spark decoder: names and values in two runs each, as Arrow
 * has them, and which pairs are tags, keys and client id; spark/decode_properties.py does the same.
 *
 * It gives up, without a verdict, when a text is no sound UTF-8 or has a name twice.
 */
#include "twin.h"

enum { SAME_MAX = 64 /* pairs of one record that are compared with each other */ };

/* In: everything. Out: `count` and what the pointers name. Mirrored by decode_twin.py. */
typedef struct {
    const uint8_t *bytes;
    const int64_t *starts; /* where the text of each row begins */
    const int64_t *ends;
    int64_t rows;
    int32_t *bounds;       /* of rows in pairs: one more than rows */
    int32_t *name_bounds;  /* of pairs in names: one more than pairs */
    int32_t *value_bounds;
    uint8_t *names;        /* room for all texts */
    uint8_t *values;
    int64_t pairs_max;
    int32_t *found[3];     /* of each row: the pair that is TAGS, KEYS, UNIQ_KEY, or -1 */
    int64_t count;         /* of pairs */
} pairs;

static int is_name(const uint8_t *at, int64_t size, const char *name, int64_t name_size)
{
    return size == name_size && memcmp(at, name, (size_t)size) == 0;
}

/* Put one pair behind the others; 0 when its row, which begins at pair `first`, has the name. */
static int put(pairs *p, int64_t row, int64_t first, span name, span value)
{
    int64_t n = p->count++;
    uint8_t *names = p->names + p->name_bounds[n];
    for (int64_t other = first; other < n; other++)
        if (p->name_bounds[other + 1] - p->name_bounds[other] == name.size &&
            memcmp(p->names + p->name_bounds[other], name.at, (size_t)name.size) == 0)
            return 0;
    p->name_bounds[n + 1] = (int32_t)(copy(names, name.at, name.size) - p->names);
    p->value_bounds[n + 1] =
        (int32_t)(copy(p->values + p->value_bounds[n], value.at, value.size) - p->values);
    if (is_name(name.at, name.size, "TAGS", 4))
        p->found[0][row] = (int32_t)n;
    else if (is_name(name.at, name.size, "KEYS", 4))
        p->found[1][row] = (int32_t)n;
    else if (is_name(name.at, name.size, "UNIQ_KEY", 8))
        p->found[2][row] = (int32_t)n;
    return 1;
}

static int put_row(pairs *p, int64_t row)
{
    const uint8_t *at = p->bytes + p->starts[row], *end = p->bytes + p->ends[row];
    int64_t first = p->count;
    for (int n = 0; n < 3; n++)
        p->found[n][row] = -1;
    if (!utf8_is_sound(at, end - at))
        return 0;
    while (at < end) {
        const uint8_t *stop = memchr(at, PAIR_END, (size_t)(end - at));
        stop = stop ? stop : end;
        const uint8_t *middle = memchr(at, NAME_END, (size_t)(stop - at));
        if (middle && middle > at && middle + 1 < stop) {
            span name = {at, middle - at}, value = {middle + 1, stop - middle - 1};
            if (p->count >= p->pairs_max || p->count - first >= SAME_MAX ||
                !put(p, row, first, name, value))
                return 0;
        }
        at = stop + 1;
    }
    return 1;
}

/* 1 when all rows were taken. */
int64_t epq_pairs(pairs *p)
{
    p->count = 0;
    p->bounds[0] = p->name_bounds[0] = p->value_bounds[0] = 0;
    for (int64_t row = 0; row < p->rows; row++) {
        if (!put_row(p, row))
            return 0;
        p->bounds[row + 1] = (int32_t)p->count;
    }
    return 1;
}
