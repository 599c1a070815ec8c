/* The JSON header of a request; its extFields are read by a function for each kind of request. */
#ifndef EPOCHMQ_REQUEST_HEADER_H
#define EPOCHMQ_REQUEST_HEADER_H

#include "json.h"

enum { PREFIX = 8 }; /* of a frame: its length, and the length of its header */

typedef struct {
    int64_t code, flag, opaque, version;
} request_head;

/* Reads the extFields into `into`; 0: not for the native code. */
typedef int fields_reader(cursor *c, void *into);

int is_name(span text, const char *name);
int read_head(span header, request_head *head, fields_reader *read_fields, void *into);

#endif
