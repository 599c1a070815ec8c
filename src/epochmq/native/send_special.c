/* Sends half messages, messages with a delay level and messages for a time to the broker's own topics.
 *
 * The result has the same bytes as that of broker/transaction/half_messages.py, broker/delay/delayed.py and
 * broker/delay/timed.py. Messages that these refuse or change are left to them. */
#include "send_turn.h"

/* `more` behind `to`. */
static uint8_t *put_place(uint8_t *to, const request *r)
{
    to = copy(put_literal(to, "\002REAL_TOPIC\001"), r->topic.at, r->topic.size);
    return put_number(put_literal(to, "\002REAL_QID\001"), r->queue_id);
}

enum { PAIRS_MAX = 48 };

/* Whether every pair has a name and a value and no name comes twice: then taking the text apart and
 * putting it together again would not change it. */
static int is_tidy(span text)
{
    span names[PAIRS_MAX];
    int count = 0;
    const uint8_t *at = text.at, *end = text.at + text.size;
    while (at < end) {
        const uint8_t *stop = memchr(at, PAIR_END, (size_t)(end - at));
        if (!stop)
            stop = end;
        const uint8_t *mid = memchr(at, NAME_END, (size_t)(stop - at));
        if (!mid || mid == at || mid + 1 == stop || count == PAIRS_MAX)
            return 0;
        span name = {at, mid - at};
        for (int n = 0; n < count; n++)
            if (names[n].size == name.size && !memcmp(names[n].at, at, (size_t)name.size))
                return 0;
        names[count++] = name;
        at = stop + 1;
    }
    return 1;
}

/* A half message. */
static int to_half(const request *r, const properties *found, span text, place *to)
{
    if (found->transactional.size != 4 || memcmp(found->transactional.at, "true", 4) ||
        !found->group.size || !is_tidy(text))
        return 0;
    uint8_t *at = put_literal(to->more, "\002__transactionId__\001");
    at = put_place(copy(at, found->uniq_key.at, found->uniq_key.size), r);
    to->size = at - to->more;
    to->queue_id = 0;
    to->sys_flag = r->sys_flag & ~(int64_t)TX_PREPARED;
    to->properties_max = PROPERTIES_MAX - 128;
    return 1;
}

/* A message for a delay level: delayed.py, delay. */
static int to_level(const request *r, const properties *found, place *to)
{
    int64_t level = digits_of(found->delay, 9);
    if (level < 1)
        return 0;
    to->size = put_place(to->more, r) - to->more;
    to->queue_id = (level < to->send_topic->queues ? level : to->send_topic->queues) - 1;
    to->tags_code = 0;
    return 1;
}

/* A message for an exact time that is still to come: timed.py, timed. */
static int to_time(const send_turn *d, const request *r, const properties *found, place *to)
{
    span asked = found->delay_sec.size ? found->delay_sec
                 : found->delay_ms.size ? found->delay_ms
                                        : found->deliver_ms;
    int64_t delay = digits_of(asked, 15); /* no product of these leaves 64 bits */
    if (delay < 0)
        return 0;
    if (found->delay_sec.size)
        delay *= 1000;
    else if (!found->delay_ms.size)
        delay -= d->wall;
    if (delay <= 0 || delay > d->delay_max)
        return 0;
    uint8_t *at = put_literal(to->more, "\002TIMER_OUT_MS\001");
    at = put_number(at, (d->wall + delay - 1) / d->precision * d->precision);
    to->size = put_place(at, r) - to->more;
    to->queue_id = 0;
    to->properties_max = PROPERTIES_MAX - 128;
    return 1;
}

/* Find the place of a message with properties that are not ordinary; 0: it is Python's. `text` is
 * its properties as they came, `to` holds what an ordinary message would have. */
int reroute(const send_turn *d, const request *r, const properties *found, span text, place *to)
{
    int kind = found->rare == RARE_TRANSACTIONAL ? HALF
               : found->rare == RARE_DELAY       ? LEVELS
               : found->rare == RARE_TIMED       ? TIMED
                                                 : -1;
    if (kind < 0 || found->ours || !(d->allowed >> kind & 1) || !(to->send_topic->allowed >> kind & 1) ||
        !d->special[kind] || (kind != HALF && r->sys_flag & TX_PREPARED))
        return 0;
    to->send_topic = d->send_topics + d->special[kind] - 1;
    if (kind == HALF)
        return to_half(r, found, text, to);
    return kind == LEVELS ? to_level(r, found, to) : to_time(d, r, found, to);
}
