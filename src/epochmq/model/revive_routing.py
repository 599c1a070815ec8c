"""Which master keeps the check points of a group; receipt handles contain its number.

A check point and its acknowledgements cancel each other only in one revive queue, so both must go
to the same master (seed 003). RocketMQ finds the master by an index in a list, and loses the pair
when the list changes (H16). In EpochMQ the pop chooses the master by rendezvous hashing, and the
handle names it: its revive queue number is `place * PIN_STEP + queue`. Numbers of own queues are
below `PIN_STEP` (`reviveQueueNum` is at most 1024). Clients return the number without interpreting
it.
"""

from collections.abc import Iterable
from hashlib import blake2b

PIN_STEP = 1024
_PLACES = 1 << 19
"""Handles hold numbers of up to nine digits."""
PIN_MAX = _PLACES * PIN_STEP + PIN_STEP - 1


def place_of(name: str) -> int:
    """Return the number of the broker group `name` in a handle; at least 1."""
    return 1 + int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % (_PLACES - 1)


def pinned(place: int, queue_id: int) -> int:
    """Return the revive queue number for a place and a queue there."""
    return place * PIN_STEP + queue_id


def is_pinned(queue_id: int) -> bool:
    """Whether the number names a master and can come from `pinned`."""
    return PIN_STEP <= queue_id <= PIN_MAX


def unpinned(queue_id: int) -> tuple[int, int]:
    """Return (place, queue there) of a pinned number."""
    return divmod(queue_id, PIN_STEP)


def favourite(key: str, names: Iterable[str]) -> str | None:
    """Return the name that all users of `key` choose from the same names (rendezvous hashing).

    If a name disappears, only the keys of that name get another one.
    """
    return max(names, key=lambda name: _weight(key, name), default=None)


def _weight(key: str, name: str) -> tuple[bytes, str]:
    return blake2b(f"{key}\0{name}".encode(), digest_size=8).digest(), name
