/* The JSON headers of single sends (310) and of ends of transactions (37). */
#include "send_turn.h"

/* A field of a send; 0: not for us. */
static int read_sent(request *r, char name, span value, int escaped)
{
    int64_t ignored;
    uint32_t bit = 1u << (name - 'a');
    if (r->sent & bit || (escaped && name != 'i'))
        return 0;
    r->sent |= bit;
    switch (name) {
    case 'b':
        r->topic = value;
        return 1;
    case 'd':
        return json_text_int(value, INT32_MIN, INT32_MAX, &ignored);
    case 'e':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->queue_id);
    case 'f':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->sys_flag);
    case 'g':
        return json_text_int(value, INT64_MIN, INT64_MAX, &r->born);
    case 'h':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->user_flag);
    case 'i':
        r->properties = value;
        return 1;
    case 'j':
        return json_text_int(value, INT32_MIN, INT32_MAX, &r->reconsumed);
    case 'l':
        return json_text_int(value, INT32_MIN, INT32_MAX, &ignored);
    case 'm':
        return is_name(value, "false");
    default: /* producer group, default topic, unit mode */
        return 1;
    }
}

/* Takes an end's field into `ended`, whose bit 31 says that one was odd. */
static void read_ended(request *r, span name, span value, int escaped)
{
    uint32_t bit;
    int sound = !escaped;
    if (is_name(name, "producerGroup")) {
        bit = 1;
        r->group = value;
    } else if (is_name(name, "tranStateTableOffset")) {
        bit = 2;
        sound &= json_text_int(value, INT64_MIN, INT64_MAX, &r->queue_offset);
    } else if (is_name(name, "commitLogOffset")) {
        bit = 4;
        sound &= json_text_int(value, INT64_MIN, INT64_MAX, &r->offset);
    } else if (is_name(name, "commitOrRollback")) {
        bit = 8;
        sound &= json_text_int(value, INT32_MIN, INT32_MAX, &r->how);
    } else if (is_name(name, "msgId")) {
        bit = 16;
        r->id = value;
    } else if (is_name(name, "transactionId")) {
        bit = 32;
        r->other_id = value;
    } else if (is_name(name, "fromTransactionCheck")) {
        bit = 64;
        sound &= is_name(value, "false") || is_name(value, "true");
    } else
        return; /* a field that nobody asks for, such as the broker's name */
    if (r->ended & bit || !sound)
        bit |= 1u << 31;
    r->ended |= bit;
}

static int read_field(void *into, span name, span value, int escaped)
{
    request *r = into;
    if (r->fields_count < FIELDS_MAX)
        r->fields[r->fields_count] = (field){name, value, escaped};
    r->fields_count++;
    if (name.size == 1 && name.at[0] >= 'a' && name.at[0] <= 'm')
        return read_sent(r, (char)name.at[0], value, escaped);
    read_ended(r, name, value, escaped);
    return 1;
}

/* Whether the fields are those of the request's code. */
static int is_whole(const request *r)
{
    const uint32_t sent = 0x1FF, ended = 31; /* a to i; what an end must have */
    if (r->head.code == SEND_V2)
        return r->head.flag == 0 && (r->sent & sent) == sent;
    return r->head.code == END_TRANSACTION && r->head.flag == ONEWAY && r->sent == 0 &&
           (r->ended & (ended | 1u << 31)) == ended;
}

/* The whole header. 0: not for us. */
int read_request(span header, request *r)
{
    memset(r, 0, offsetof(request, fields));
    return read_head(header, &r->head, read_field, r) && is_whole(r);
}
