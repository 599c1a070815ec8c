"""Which master a group's check points go to, told by a number that travels in receipt handles.

A check point and its acknowledgements cancel each other in one revive queue only, so they go to one
and the same master (seed 003). RocketMQ finds it by an index into a list, and loses the pair when
the list changes (H16). Here the pop chooses by rendezvous hashing
and the handle says whom: its revive queue number is `place * PIN_STEP + queue`. Own queues are
below `PIN_STEP` (`reviveQueueNum` is at most 1024), and clients bring the number back unread.
"""

from collections.abc import Iterable
from hashlib import blake2b

PIN_STEP = 1024
_PLACES = 1 << 19
"""Handles hold up to nine digits."""
PIN_MAX = _PLACES * PIN_STEP + PIN_STEP - 1


def place_of(name: str) -> int:
    """The number by which a handle names the group `name`; from 1 up."""
    return 1 + int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % (_PLACES - 1)


def pinned(place: int, queue_id: int) -> int:
    """The revive queue number that says both."""
    return place * PIN_STEP + queue_id


def is_pinned(queue_id: int) -> bool:
    """Whether the number names a master, and is one that `pinned` gives."""
    return PIN_STEP <= queue_id <= PIN_MAX


def unpinned(queue_id: int) -> tuple[int, int]:
    """(place, queue there) of a pinned number."""
    return divmod(queue_id, PIN_STEP)


def favourite(key: str, names: Iterable[str]) -> str | None:
    """The one of `names` that all who use `key` agree on; another only when that one goes."""
    return max(names, key=lambda name: _weight(key, name), default=None)


def _weight(key: str, name: str) -> tuple[bytes, str]:
    return blake2b(f"{key}\0{name}".encode(), digest_size=8).digest(), name
