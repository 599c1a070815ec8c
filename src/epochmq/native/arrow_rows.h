/* What the parts of the Spark decoder share: arrow_rows.c finds the records of a batch, arrow_columns.c and
 * arrow_properties.c write the columns of one record. */
#ifndef EPOCHMQ_WHOLE_H
#define EPOCHMQ_WHOLE_H

#include "native.h"

enum {
    TOPIC_MAX = 255,   /* bytes of a name; longer ones are not for this */
    LINE = 64,         /* bytes that memory gives at a time */
    BLOCK = 16,        /* short texts are copied and compared by so many bytes: no call */
    FOUND = 3,         /* names that get a column of their own: TAGS, KEYS, UNIQ_KEY */
    ID = 2,            /* which of them is the last */
    ID_MAX = 56,       /* bytes of an id that is made here */
    SAME_MAX = 64,     /* pairs of one record */
    NAMES_MAX = 1024,  /* bytes of its names */
    KNOWN_BITS = 9,    /* so many hosts are remembered, by their hashes: 512 */
    HOST_TEXT = 32,    /* "255.255.255.255:4294967295" has 26 */
    HOST_ROOM = 52     /* "[" and "]" around eight times "ffff" and ":4294967295" */
};

/* Where the parts of an ordinary record lie, from its begin. Its properties begin two behind its topic. */
typedef struct {
    int64_t size;
    int64_t born_more; /* what its hosts have more than IPv4 hosts */
    int64_t store_more;
    int64_t body_at;
    int64_t body_to;
    int64_t topic_at;
    int64_t topic_to;
    uint32_t flags;
} parts;

typedef struct {
    int32_t *bounds; /* one more than rows */
    uint8_t *data;
} cells;

/* In: everything but `rows`, which arrow_rows.c sets. Out: what the pointers name. */
typedef struct {
    int64_t rows;
    int32_t *int32s[5];
    int64_t *int64s[3];
    int64_t *times[2]; /* born, stored; microseconds */
    cells body;
    cells hosts[2];    /* room for HOST_ROOM bytes each, and HOST_TEXT more */
    cells topic;       /* room for all, and a block more */
    cells broker;
    span broker_name;
} columns;

typedef struct {
    uint64_t host;
    int64_t size; /* 0: none yet */
    uint8_t text[HOST_TEXT];
} known_host;

/* What is known of the rows before. */
typedef struct {
    int64_t topic_size; /* -1: none yet */
    uint8_t topic[TOPIC_MAX + 1 + BLOCK];
    known_host hosts[2][1 << KNOWN_BITS];
} column_work;

void columns_begin(const columns *c, column_work *w);
/* Cells of row `row`; 0 when it is not for this. */
int columns_put(const columns *c, column_work *w, int64_t row, const uint8_t *record,
                const parts *its);
void columns_end(const columns *c);

/* One column of texts, null where `valid` has no bit. */
typedef struct {
    int32_t *bounds; /* null: it is not wanted */
    uint8_t *data;   /* room for all texts and made ids, and a block more */
    uint8_t *valid;
    int64_t nulls;
} texts;

/* In: everything but `limit` and `rows`, which arrow_rows.c sets. Out: `count`, `nulls` and what the pointers
 * name. */
typedef struct {
    const uint8_t *limit;  /* nothing is read from here on */
    int64_t rows;
    int32_t *bounds;       /* of rows in pairs: one more than rows; null: no maps are wanted */
    int32_t *name_bounds;  /* of pairs in names: one more than pairs */
    int32_t *value_bounds;
    uint8_t *names;        /* room for all texts, and a block more */
    uint8_t *values;
    int64_t pairs_max;
    int64_t count;         /* of pairs */
    texts found[FOUND];
    int64_t makes_ids;     /* a row without a UNIQ_KEY gets the id of its place */
} pairs;

/* What the names of a row are, also those that come again. Rows of one producer have the same. */
typedef struct {
    int64_t count;
    int64_t kept;
    span names[SAME_MAX];
    uint8_t kept_names[NAMES_MAX + BLOCK]; /* one after the other, as a row's map has them */
    int32_t kept_ends[SAME_MAX];
    uint64_t words[SAME_MAX][2]; /* the first block of each name, zeros behind it */
    uint64_t masks[SAME_MAX][2];
    int keep[SAME_MAX];  /* 0 when the name comes again behind it */
    int found[SAME_MAX]; /* which column of its own, or -1 */
    int has_id;
} shape;

void pairs_begin(pairs *p, shape *s);
/* The pairs of row `row`; 0 when it is not for this. */
int pairs_put(pairs *p, shape *s, int64_t row, const uint8_t *record, const parts *its);

#endif
