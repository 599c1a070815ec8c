"""The configuration of a consumer group on one broker."""

from msgspec import UNSET, Struct, UnsetType, field

from epochmq.model.retries import RETRIES_DEFAULT


class SimpleSubscription(Struct, rename="camel"):
    """What a group is expected to subscribe to (5.1+)."""

    topic: str = ""
    expression_type: str = "TAG"
    expression: str = "*"
    version: int = 0


class ExponentialRetryPolicy(Struct, rename="camel"):
    """Delays in ms."""

    initial: int = 5_000
    max: int = 7_200_000
    multiplier: int = 2


class CustomizedRetryPolicy(Struct, rename="camel"):
    """`next`: the delay in ms before each attempt."""

    next: list[int] = []


class GroupRetryPolicy(Struct, rename="camel"):
    """Fields that are UNSET (falsy) are left out, as upstream leaves out nulls."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | UnsetType | None = UNSET
    customized_retry_policy: CustomizedRetryPolicy | UnsetType | None = UNSET


class SubscriptionGroupConfig(Struct, rename="camel"):
    """Defaults are upstream's; fields a 4.9 peer does not send take them."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = RETRIES_DEFAULT
    """How often a message comes again before it is a dead letter, where the consumer does not say
    so itself (`retries.py`). With 0 or -1 the first failure is the last, as in RocketMQ."""
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[SimpleSubscription] | UnsetType | None = UNSET
    attributes: dict[str, str] = {}
