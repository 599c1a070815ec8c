/* The properties of a record for the Spark decoder: names and values at the end of two runs, as Arrow
 * has them, and the values of tags, keys and client id; spark/decode_properties.py does the same.
 *
 * It gives up, without a verdict, when a text is no sound UTF-8 or has very many or long names.
 */
#include "arrow_rows.h"

enum { WORD = 8 };

#define EACH(byte) (0x0101010101010101u * (byte))

static const char *const FOUND_NAMES[FOUND] = {"TAGS", "KEYS", "UNIQ_KEY"};

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

/* Which byte of a word in memory has its top bit set first; there is one. */
static inline int first_of(uint64_t marks)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_ctzll(marks) / 8;
#else
    return __builtin_clzll(marks) / 8;
#endif
}

/* As `until` with PAIR_END, but may read a word behind `end`; what it read is added to `seen`. */
static inline const uint8_t *until_end(const uint8_t *at, const uint8_t *end, uint64_t *seen)
{
    for (; at < end; at += WORD) {
        uint64_t word;
        memcpy(&word, at, WORD);
        *seen |= word;
        word ^= EACH(PAIR_END);
        uint64_t marks = ~(((word & EACH(0x7F)) + EACH(0x7F)) | word | EACH(0x7F));
        if (marks) {
            at += first_of(marks);
            break;
        }
    }
    return at < end ? at : end;
}

static inline int begins_with(const uint8_t *at, const shape *s, int64_t n)
{
    if (s->names[n].size > BLOCK)
        return memcmp(at, s->names[n].at, (size_t)s->names[n].size) == 0;
    uint64_t words[2];
    memcpy(words, at, BLOCK);
    return (((words[0] ^ s->words[n][0]) & s->masks[n][0]) |
            ((words[1] ^ s->words[n][1]) & s->masks[n][1])) == 0;
}

/* The values of a row that has the names of `s`; 0 when it has others, is no sound UTF-8, or ends so
 * near to `limit` that a block behind it cannot be read. */
static int read_alike(const shape *s, span text, const uint8_t *limit, span *values)
{
    const uint8_t *at = text.at, *end = text.at + text.size;
    uint64_t seen = 0;
    if (limit - end < BLOCK)
        return 0;
    for (int64_t n = 0; n < s->count; n++) {
        int64_t size = s->names[n].size;
        if (end - at <= size + 1 || at[size] != NAME_END || !begins_with(at, s, n))
            return 0;
        const uint8_t *value = at + size + 1, *stop = until_end(value, end, &seen);
        if (stop == value)
            return 0;
        values[n].at = value;
        values[n].size = stop - value;
        at = stop + (stop < end);
    }
    /* The names are sound: they are those of a row that was. */
    return at == end && (!(seen & EACH(0x80)) || utf8_is_sound(text.at, text.size));
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
    s->found[n] = s->keep[n] ? found_of(name) : -1;
}

/* Puts the kept names together; 0 when they are too long. */
static int join_names(shape *s)
{
    int64_t size = 0;
    s->kept = 0;
    for (int64_t n = 0; n < s->count; n++) {
        if (!s->keep[n])
            continue;
        if (s->names[n].size > NAMES_MAX - size)
            return 0;
        copy(s->kept_names + size, s->names[n].at, s->names[n].size);
        size += s->names[n].size;
        s->kept_ends[s->kept++] = (int32_t)size;
    }
    return 1;
}

/* Any row; 0 when it is not for this. */
static int read_any(shape *s, span text, span *values)
{
    const uint8_t *at = text.at, *end = text.at + text.size;
    s->count = 0;
    if (!utf8_is_sound(text.at, text.size))
        return 0;
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
    s->has_id = 0;
    for (int64_t n = s->count - 1; n >= 0; n--) {
        look_at(s, n);
        s->has_id |= s->found[n] == ID;
    }
    return join_names(s);
}

static void put_text(texts *column, int64_t row, span value, const uint8_t *limit)
{
    uint8_t *end = copy_short(column->data + column->bounds[row], value, limit);
    column->bounds[row + 1] = (int32_t)(end - column->data);
    column->valid[row >> 3] |= (uint8_t)(1u << (row & 7));
    column->nulls--;
}

static void put_names(pairs *p, const shape *s)
{
    int32_t begin = p->name_bounds[p->count], *bounds = p->name_bounds + p->count + 1;
    int32_t size = s->kept ? s->kept_ends[s->kept - 1] : 0;
    for (int32_t at = 0; at < size; at += BLOCK)
        memcpy(p->names + begin + at, s->kept_names + at, BLOCK);
    for (int64_t n = 0; n < s->kept; n++)
        bounds[n] = begin + s->kept_ends[n];
}

static void put_map(pairs *p, int64_t row, const shape *s, const span *values)
{
    uint8_t *to = p->values + p->value_bounds[p->count];
    put_names(p, s);
    for (int64_t n = 0; n < s->count; n++)
        if (s->keep[n]) {
            to = copy_short(to, values[n], p->limit);
            p->value_bounds[++p->count] = (int32_t)(to - p->values);
        }
    p->bounds[row + 1] = (int32_t)p->count;
}

static void put_found(pairs *p, int64_t row, const shape *s, const span *values)
{
    for (int n = 0; n < FOUND; n++)
        if (p->found[n].bounds)
            p->found[n].bounds[row + 1] = p->found[n].bounds[row];
    for (int64_t n = 0; n < s->count; n++)
        if (s->found[n] >= 0 && p->found[s->found[n]].bounds)
            put_text(&p->found[s->found[n]], row, values[n], p->limit);
}


/* In place of a client's id that there is none of: store host and place in the log, in hex. */
static void put_id(texts *column, int64_t row, const uint8_t *record, const parts *its)
{
    int64_t size = WORD + its->store_more;
    uint8_t id[ID_MAX / 2], text[ID_MAX];
    copy(copy(id, record + STORE_HOST_AT + its->born_more, size), record + OFFSET_AT, WORD);
    size += WORD;
    for (int64_t at = 0; at + WORD <= size; at += WORD)
        put_hex(text + 2 * at, get64(id + at));
    put_hex(text + 2 * (size - WORD), get64(id + size - WORD)); /* 28 bytes are no whole words */
    span made = {text, 2 * size};
    put_text(column, row, made, text); /* the limit: just so many bytes are read */
}

void pairs_begin(pairs *p, shape *s)
{
    s->count = s->kept = s->has_id = 0;
    p->count = 0;
    if (p->bounds)
        p->bounds[0] = p->name_bounds[0] = p->value_bounds[0] = 0;
    for (int n = 0; n < FOUND; n++)
        if (p->found[n].bounds) {
            p->found[n].bounds[0] = 0;
            p->found[n].nulls = p->rows;
            memset(p->found[n].valid, 0, (size_t)(p->rows + 7) / 8);
        }
}

int pairs_put(pairs *p, shape *s, int64_t row, const uint8_t *record, const parts *its)
{
    span text = {record + its->topic_to + 2, its->size - its->topic_to - 2}, values[SAME_MAX];
    if (!read_alike(s, text, p->limit, values) && !read_any(s, text, values))
        return 0;
    if (p->bounds && s->kept > p->pairs_max - p->count)
        return 0;
    if (p->bounds)
        put_map(p, row, s, values);
    put_found(p, row, s, values);
    if (p->makes_ids && !s->has_id)
        put_id(&p->found[ID], row, record, its);
    return 1;
}
