/* The properties of many records for the Spark decoder: names and values in two runs each, as Arrow
 * has them, and the values of tags, keys and client id; spark/decode_properties.py does the same.
 *
 * It gives up, without a verdict, when a text is no sound UTF-8 or has very many pairs.
 */
#include "twin.h"

enum {
    SAME_MAX = 64, /* pairs of one record */
    FOUND = 3,     /* names that get a column of their own */
    BLOCK = 16     /* short texts are copied and compared by so many bytes: no call */
};

static const char *const FOUND_NAMES[FOUND] = {"TAGS", "KEYS", "UNIQ_KEY"};

/* One column of texts, null where `valid` has no bit. */
typedef struct {
    int32_t *bounds;
    uint8_t *data;  /* room for all texts, and a block more */
    uint8_t *valid;
    int64_t nulls;
} texts;

/* In: everything. Out: `count`, `nulls` and what the pointers name. Mirrored by decode_packed.py. */
typedef struct {
    const uint8_t *bytes;
    int64_t size;          /* of the bytes */
    const int64_t *starts; /* where the text of each row begins */
    const int64_t *ends;
    int64_t rows;
    int32_t *bounds;       /* of rows in pairs: one more than rows */
    int32_t *name_bounds;  /* of pairs in names: one more than pairs */
    int32_t *value_bounds;
    uint8_t *names;        /* room for all texts, and a block more */
    uint8_t *values;
    int64_t pairs_max;
    int64_t count;         /* of pairs */
    texts found[FOUND];
} pairs;

/* What the names of a row are, also those that come again. Rows of one producer have the same. */
typedef struct {
    int64_t count;
    int64_t kept;
    span names[SAME_MAX];
    uint64_t words[SAME_MAX][2]; /* the first block of each name, zeros behind it */
    uint64_t masks[SAME_MAX][2];
    int keep[SAME_MAX];  /* 0 when the name comes again behind it */
    int found[SAME_MAX]; /* which column of its own, or -1 */
} shape;

static int same(span one, span other)
{
    return one.size == other.size && memcmp(one.at, other.at, (size_t)one.size) == 0;
}

static const uint8_t *until(const uint8_t *at, const uint8_t *end, int mark)
{
    const uint8_t *found = memchr(at, mark, (size_t)(end - at));
    return found ? found : end;
}

/* As `copy`, but may write a block behind; reads nothing from `limit` on. */
static inline uint8_t *copy_short(uint8_t *to, span from, const uint8_t *limit)
{
    if (limit - from.at < from.size + BLOCK)
        return copy(to, from.at, from.size);
    for (int64_t at = 0; at < from.size; at += BLOCK)
        memcpy(to + at, from.at + at, BLOCK);
    return to + from.size;
}

static inline int begins_with(const uint8_t *at, const shape *s, int64_t n, const uint8_t *limit)
{
    if (s->names[n].size > BLOCK || limit - at < BLOCK)
        return memcmp(at, s->names[n].at, (size_t)s->names[n].size) == 0;
    uint64_t words[2];
    memcpy(words, at, BLOCK);
    return (((words[0] ^ s->words[n][0]) & s->masks[n][0]) |
            ((words[1] ^ s->words[n][1]) & s->masks[n][1])) == 0;
}

/* The values of a row that has the names of `s`; 0 when it has others. */
static int read_alike(const shape *s, span text, const uint8_t *limit, span *values)
{
    const uint8_t *at = text.at, *end = text.at + text.size;
    for (int64_t n = 0; n < s->count; n++) {
        int64_t size = s->names[n].size;
        if (end - at <= size + 1 || at[size] != NAME_END || !begins_with(at, s, n, limit))
            return 0;
        const uint8_t *value = at + size + 1, *stop = until(value, end, PAIR_END);
        if (stop == value)
            return 0;
        values[n].at = value;
        values[n].size = stop - value;
        at = stop + (stop < end);
    }
    return at == end;
}

static int found_of(span name)
{
    for (int n = 0; n < FOUND; n++) {
        span known = {(const uint8_t *)FOUND_NAMES[n], (int64_t)strlen(FOUND_NAMES[n])};
        if (same(name, known))
            return n;
    }
    return -1;
}

/* What `shape` keeps of name `n`, all behind it being known. */
static void look_at(shape *s, int64_t n)
{
    span name = s->names[n];
    int64_t front = name.size < BLOCK ? name.size : BLOCK;
    memset(s->words[n], 0, BLOCK);
    memset(s->masks[n], 0, BLOCK);
    memcpy(s->words[n], name.at, (size_t)front);
    memset(s->masks[n], 0xFF, (size_t)front);
    s->keep[n] = 1;
    for (int64_t later = n + 1; later < s->count && s->keep[n]; later++)
        s->keep[n] = !same(name, s->names[later]);
    s->kept += s->keep[n];
    s->found[n] = s->keep[n] ? found_of(name) : -1;
}

/* Any row; 0 when it has too many pairs. */
static int read_any(shape *s, span text, span *values)
{
    const uint8_t *at = text.at, *end = text.at + text.size;
    s->count = s->kept = 0;
    while (at < end) {
        const uint8_t *stop = until(at, end, PAIR_END), *middle = until(at, stop, NAME_END);
        if (middle > at && middle + 1 < stop) {
            if (s->count == SAME_MAX)
                return 0;
            span name = {at, middle - at}, value = {middle + 1, stop - middle - 1};
            s->names[s->count] = name;
            values[s->count++] = value;
        }
        at = stop + 1;
    }
    for (int64_t n = s->count - 1; n >= 0; n--)
        look_at(s, n);
    return 1;
}

static void put_text(texts *column, int64_t row, span value, const uint8_t *limit)
{
    uint8_t *end = copy_short(column->data + column->bounds[row], value, limit);
    column->bounds[row + 1] = (int32_t)(end - column->data);
    column->valid[row >> 3] |= (uint8_t)(1u << (row & 7));
    column->nulls--;
}

static void put_row(pairs *p, int64_t row, const shape *s, const span *values)
{
    const uint8_t *limit = p->bytes + p->size;
    for (int n = 0; n < FOUND; n++)
        p->found[n].bounds[row + 1] = p->found[n].bounds[row];
    for (int64_t n = 0; n < s->count; n++) {
        if (!s->keep[n])
            continue;
        int64_t at = p->count++;
        uint8_t *name = copy_short(p->names + p->name_bounds[at], s->names[n], limit);
        uint8_t *value = copy_short(p->values + p->value_bounds[at], values[n], limit);
        p->name_bounds[at + 1] = (int32_t)(name - p->names);
        p->value_bounds[at + 1] = (int32_t)(value - p->values);
        if (s->found[n] >= 0)
            put_text(&p->found[s->found[n]], row, values[n], limit);
    }
    p->bounds[row + 1] = (int32_t)p->count;
}

/* 1 when all rows were taken. */
int64_t epq_pairs(pairs *p)
{
    shape s;
    s.count = s.kept = 0;
    span values[SAME_MAX];
    p->count = 0;
    p->bounds[0] = p->name_bounds[0] = p->value_bounds[0] = 0;
    for (int n = 0; n < FOUND; n++) {
        p->found[n].bounds[0] = 0;
        p->found[n].nulls = p->rows;
        memset(p->found[n].valid, 0, (size_t)(p->rows + 7) / 8);
    }
    for (int64_t row = 0; row < p->rows; row++) {
        span text = {p->bytes + p->starts[row], p->ends[row] - p->starts[row]};
        if (!utf8_is_sound(text.at, text.size))
            return 0;
        if (!read_alike(&s, text, p->bytes + p->size, values) && !read_any(&s, text, values))
            return 0;
        if (s.kept > p->pairs_max - p->count)
            return 0;
        put_row(p, row, &s, values);
    }
    return 1;
}
