"""Options of POP, under RocketMQ's names."""

from dataclasses import dataclass

from epochmq.base import limits
from epochmq.base.options import option

_HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class PopKeys:
    # Messages that are popped (POP).
    revive_queue_num: int = option(8, "Queues of the POP revive topic.", low=1, high=1024)
    pop_polling_size: int = option(
        1024, "Pops of one group that may wait for one queue, or for all.", low=1, high=100_000
    )
    pop_polling_map_size: int = option(
        100_000, "Groups and queues that pops may wait for.", low=1, high=1_000_000
    )
    max_pop_polling_size: int = option(
        100_000, "Pops that may wait in all.", low=1, high=limits.LONG_POLLS_MAX
    )
    pop_from_retry_probability: int = option(
        20, "Of 100 pops, how many look for retries first.", mutable=True, low=0, high=100
    )
    enable_retry_topic_v2: bool = option(
        False,
        "Name new POP retry topics %RETRY%group+topic, not %RETRY%group_topic.",
        mutable=True,
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True, "With enableRetryTopicV2, read the retry topics of the first kind, too.", mutable=True
    )
    enable_pop_buffer_merge: bool = option(
        False,
        "Keep young check points in memory: what is acknowledged soon is never written.",
        mutable=True,
    )
    pop_ck_stay_buffer_time: int = option(
        10_000, "How long a check point stays in memory.", low=0, high=_HOUR_MS, unit="ms"
    )
    pop_ck_stay_buffer_time_out: int = option(
        3_000, "How long before it is due it is written.", low=0, high=_HOUR_MS, unit="ms"
    )
    pop_ck_max_buffer_size: int = option(
        200_000, "Check points that may stay in memory.", low=0, high=limits.POP_CHECK_POINTS_MAX
    )
    pop_ck_offset_max_queue_size: int = option(
        20_000, "Check points of one queue that may stay in memory.", mutable=True, low=0,
        high=limits.POP_CHECK_POINTS_MAX,
    )  # fmt: skip
