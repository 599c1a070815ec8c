/* The records of leading units of a queue, as spans of one log file. */
#ifndef EPOCHMQ_NEIGHBOURS_H
#define EPOCHMQ_NEIGHBOURS_H

#include "native.h"

/* In: everything up to `spans`. Out: the rest. Mirrored by units.py. */
typedef struct {
    const uint8_t *bytes; /* of one log file, from log offset `start` to `end` */
    int64_t start;
    int64_t end;
    const uint8_t *units;
    int64_t count;
    int64_t first; /* queue offset of the first one */
    int64_t queue_id;
    int64_t room;    /* bytes; the records behind the first one keep to it */
    int64_t *spans;  /* room for `count` pairs: where in `bytes` neighbours in the log begin and end */
    int64_t spans_count;
    int64_t records;
    int64_t size;    /* bytes of the records */
    int64_t passed;  /* units, those without a record too */
    int64_t changed; /* 1: the record of the next unit does not begin as it was written */
} neighbours;

void epq_neighbours(neighbours *n); /* record_scan.c */

#endif
