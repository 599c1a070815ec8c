"""Consumer groups: subscriptions, the rule for retries, and the configuration on one broker."""

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from epochmq.base.errors import Refused
from epochmq.model.tags import SUB_ALL, java_hash, split_expression

# Subscription --------------------------------------------------------------------------------
# What one consumer group wants of one topic.


TAG = "TAG"
SQL92 = "SQL92"
_TAG_TYPES = (TAG, "", None)
_SUBSCRIPTION_PARSE_FAILED = 23


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel"):
    """The subscription of one topic.

    `code_set` holds the Java hash of each tag in `tags_set`; both are empty if all messages match.
    `sub_version` is the Unix time in ms at which the client made it; a broker keeps the largest.
    """

    topic: str = ""
    sub_string: str = SUB_ALL
    tags_set: tuple[str, ...] = ()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str | None = TAG
    class_filter_mode: bool = False

    @property
    def is_tag(self) -> bool:
        """Whether the filter is by tags; old clients may leave the type empty."""
        return self.expression_type in _TAG_TYPES

    @property
    def wants_all(self) -> bool:
        """Whether every message of the topic matches."""
        return self.is_tag and (not self.sub_string or self.sub_string == SUB_ALL)


def build(
    topic: str, expression: str | None, expression_type: str | None = TAG, version: int = 0
) -> SubscriptionData:
    """Return the subscription that a client would send. Raises `Refused` (23) for an
    empty filter.
    """
    if expression_type not in _TAG_TYPES:
        if not expression:
            raise Refused(
                _SUBSCRIPTION_PARSE_FAILED, f"an empty {expression_type} expression; give one"
            )
        return SubscriptionData(
            topic, expression, sub_version=version, expression_type=expression_type
        )
    tags = split_expression(expression)
    if expression is None or tags is None:
        return SubscriptionData(topic, SUB_ALL, sub_version=version)
    codes = frozenset(map(java_hash, tags))
    return SubscriptionData(topic, expression, tuple(tags), codes, version)


# Retries -------------------------------------------------------------------------------------
# The rule that says when a message that failed becomes a dead letter; brokers and clients use it.
#
# A message is delivered once, and after that up to `allowed` times as a retry. When the last of
# these deliveries fails, the message is tried out: it becomes a dead letter. So a message is
# delivered `allowed + 1` times, and `reconsumeTimes` is 0, 1, ... `allowed` in these deliveries.
#
# Where the rule is applied, and what `retries` is there:
#
# - A broker that is asked to take a message back (CONSUMER_SEND_MSG_BACK): `reconsumeTimes` of the
#   message that failed.
# - A broker that a consumer sends a copy to, to the retry topic: one less than `reconsumeTimes` of
#   the copy, which counts the coming retry already (RocketMQ tests `>` there). A copy of a group
#   that holds a queue lock is a dead letter at once, as in RocketMQ 5.3: its consumers are ordered,
#   and send messages that are tried out without one retry more.
# - An ordered consumer and a POP consumer: `reconsumeTimes` of the message that failed. Brokers do
#   not make dead letters of messages that were popped.
#
# What `allowed` is: `consumer_limit` at a consumer, `broker_limit` at a broker. A broker makes a
# dead letter of the first failure when the limit is -1, as RocketMQ's does; consumers never send
# -1.


RETRIES_DEFAULT = 16
"""The limit of a group, and of a consumer that is not ordered, if none is set."""
RETRIES_UNLIMITED = 2**31 - 1
"""The `maxReconsumeTimes` that means "no limit", as in RocketMQ's clients."""


def is_tried_out(retries: int, allowed: int) -> bool:
    """Whether a message that failed after `retries` retries becomes a dead letter."""
    return retries >= allowed


def consumer_limit(wanted: int | None, *, ordered: bool) -> int:
    """Return how many retries a consumer allows; a negative `wanted` means no limit.

    If `wanted` is None, an ordered consumer has no limit, as in RocketMQ; others have 16 retries.
    """
    if wanted is None:
        return RETRIES_UNLIMITED if ordered else RETRIES_DEFAULT
    return RETRIES_UNLIMITED if wanted < 0 else wanted


def broker_limit(asked: int | None, group_limit: int) -> int:
    """Return how many retries a broker allows.

    Args:
        asked: `maxReconsumeTimes` of the request, or None.
        group_limit: `retryMaxTimes` of the group, used if the request has no limit.
    """
    return group_limit if asked is None else asked


# Group ---------------------------------------------------------------------------------------


class SimpleSubscription(Struct, rename="camel"):
    """The expected subscription of a group (since 5.1)."""

    topic: str = ""
    expression_type: str = "TAG"
    expression: str = "*"
    version: int = 0


class ExponentialRetryPolicy(Struct, rename="camel"):
    """Retry delays that grow by a factor; `initial` and `max` are milliseconds."""

    initial: int = 5_000
    max: int = 7_200_000
    multiplier: int = 2


class CustomizedRetryPolicy(Struct, rename="camel"):
    """Fixed retry delays: `next` is the delay in ms before each attempt."""

    next: list[int] = []


class GroupRetryPolicy(Struct, rename="camel"):
    """The retry policy of a group. UNSET fields are not written, as RocketMQ leaves out nulls."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | UnsetType | None = UNSET
    customized_retry_policy: CustomizedRetryPolicy | UnsetType | None = UNSET


class SubscriptionGroupConfig(Struct, rename="camel"):
    """The configuration of a group. Defaults are RocketMQ's; 4.9 does not send all fields."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = RETRIES_DEFAULT
    """Retries before a message becomes a dead letter, unless the consumer sets a limit. With 0 or
    -1 the first failure makes a dead letter, as in RocketMQ."""
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[SimpleSubscription] | UnsetType | None = UNSET
    attributes: dict[str, str] = {}
