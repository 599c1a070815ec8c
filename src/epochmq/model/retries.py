"""The rule that says when a message that failed becomes a dead letter; brokers and clients use it.

A message is delivered once, and after that up to `allowed` times as a retry. When the last of these
deliveries fails, the message is tried out: it becomes a dead letter. So a message is delivered
`allowed + 1` times, and `reconsumeTimes` is 0, 1, ... `allowed` in these deliveries.

Who looks, and what `retries` is there:

- a broker that is asked to take a message back (CONSUMER_SEND_MSG_BACK): the `reconsumeTimes` of
  the message that failed;
- a broker that a consumer sends a copy to, to the retry topic: one less than the copy's
  `reconsumeTimes`, which already counts the retry to come (RocketMQ tests `>` there);
  A copy of a group that holds a queue lock is a dead letter at once, as in RocketMQ 5.3: its
  consumers are in order, and send what is tried out without one retry more;
- a consumer in order, and a POP consumer: the `reconsumeTimes` of the message that failed. Brokers
  do not make dead letters of messages that were popped.

What `allowed` is: `consumer_limit` at a consumer, `broker_limit` at a broker. A broker makes a dead
letter of the first failure when the limit is -1, as RocketMQ's does; consumers never send -1.
"""

RETRIES_DEFAULT = 16
"""The limit of a group, and of a consumer that is not in order, when nobody sets one."""
RETRIES_UNLIMITED = 2**31 - 1
"""`maxReconsumeTimes` of a consumer that never gives a message up; Java's clients say it so."""


def is_tried_out(retries: int, allowed: int) -> bool:
    """Whether a message becomes a dead letter that failed after `retries` retries."""
    return retries >= allowed


def consumer_limit(wanted: int | None, *, ordered: bool) -> int:
    """How many retries a consumer allows that was told `wanted`; negative numbers are no limit.

    Without a number a consumer in order has no limit, as in RocketMQ.
    """
    if wanted is None:
        return RETRIES_UNLIMITED if ordered else RETRIES_DEFAULT
    return RETRIES_UNLIMITED if wanted < 0 else wanted


def broker_limit(asked: int | None, group_limit: int) -> int:
    """How many retries a broker allows: what the request says, else what the group says.

    `asked` is the request's `maxReconsumeTimes`, `group_limit` the group's `retryMaxTimes`.
    """
    return group_limit if asked is None else asked
