"""Options of messages for an exact time, under RocketMQ's names."""

from dataclasses import dataclass

from epochmq.base.options import option

_DAY_SEC = 86_400
_INT_MAX = 2**31 - 1
_MIB = 1024 * 1024
PRECISIONS_MS = (100, 200, 500, 1000)
"""As in RocketMQ; what a second is a multiple of."""


@dataclass(frozen=True, kw_only=True)
class TimerKeys:
    timer_wheel_enable: bool = option(
        True, "Take messages that are to be delivered at an exact time."
    )
    timer_precision_ms: int = option(
        1000, "Width of a slot of the wheel: 1000, 500, 200 or 100.", low=100, high=1000, unit="ms"
    )
    timer_max_delay_sec: int = option(
        3 * _DAY_SEC,
        "A message for later than this is refused.",
        mutable=True,
        low=1,
        high=3650 * _DAY_SEC,
        unit="s",
    )
    timer_roll_window_slot: int = option(
        2 * _DAY_SEC,
        "A message that is this many slots away or more waits in pieces.",
        low=4,
        high=4 * _DAY_SEC,
    )
    timer_congest_num_each_slot: int = option(
        _INT_MAX,
        "From here on more and more messages for one slot are refused, from twice as many all.",
        mutable=True,
        low=1,
        high=_INT_MAX,
    )
    timer_flush_interval_ms: int = option(
        1000, "How often the wheel and its checkpoint are saved.", low=10, high=3_600_000, unit="ms"
    )
    mapped_file_size_timer_log: int = option(
        100 * _MIB, "Size of one file of the timer log.", low=52, high=1024 * _MIB, unit="bytes"
    )
    timer_stop_enqueue: bool = option(
        False, "Leave messages in the timer topic, off the wheel.", mutable=True
    )
    recall_message_enable: bool = option(
        False,
        "Take messages for an exact time back on demand (RECALL_MESSAGE); answers to their sends"
        " bring a handle for it.",
        mutable=True,
    )
    allow_recall_when_broker_not_writeable: bool = option(
        True, "With brokerPermission without writing, too.", mutable=True
    )
    timer_stop_dequeue: bool = option(False, "Deliver nothing that is due.", mutable=True)


def timer_problems(keys: TimerKeys) -> list[str]:
    """What the values allow singly, but not together."""
    if keys.timer_precision_ms not in PRECISIONS_MS:
        wanted = ", ".join(map(str, PRECISIONS_MS))
        return [f"option 'timerPrecisionMs' must be one of {wanted}"]
    return []
