"""The fixed part of many records at once, checked as `model.record.check` checks one.

The head is gathered as opaque bytes and then seen as fields. IPv6 hosts move what follows them;
such heads are put together from their pieces, so that the fields have one layout afterwards.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochmq.model.record import HEAD, MAGIC_V2
from epochmq.model.sys_flag import BORN_V6, HOSTS_V6_MASK, STORE_V6
from epochmq.spark.decode_chase import Bytes, Ints, gather
from epochmq.spark.decode_fault import CorruptRecord

FIELDS = np.dtype(
    [
        ("size", ">u4"),
        ("magic", ">u4"),
        ("bodyCRC", ">i4"),
        ("queueId", ">i4"),
        ("flag", ">i4"),
        ("queueOffset", ">i8"),
        ("commitLogOffset", ">i8"),
        ("sysFlag", ">i4"),
        ("bornTimestamp", ">i8"),
        ("bornHost", "V8"),
        ("storeTimestamp", ">i8"),
        ("storeHost", "V8"),
        ("reconsumeTimes", ">i4"),
        ("preparedTransactionOffset", ">i8"),
        ("bodyLength", ">u4"),
    ]
)
"""The head with two IPv4 hosts; the fields are named as their columns."""

_BORN_HOST_AT = 48
_STORE_TIME_AT = 56
_STORE_HOST_AT = 64
_AFTER_HOSTS_AT = 72
_V6_EXTRA = 12
_SMALLEST = HEAD.size + 3
Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Rows:
    """Sound records of one buffer, one element each; places are in `raw`.

    A field of `head` that names a host is meaningless where `born6` or `store6` is set.
    """

    raw: Bytes
    at: Ints
    any_flag: int
    """All bits of the sys flags, and maybe more: what is not in it no row has."""
    born6: Flags | None
    store6: Flags | None
    body_at: Ints
    body_to: Ints
    topic_at: Ints
    topic_to: Ints
    end: Ints
    heads: NDArray[np.void] | None = None
    """`head`, once it was wanted: the native code needs none."""
    flags: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.at)

    def pick(self, which: slice | Flags) -> "Rows":
        """Some of the rows: views for a slice."""
        return replace(
            self,
            at=self.at[which],
            heads=None if self.heads is None else self.heads[which],
            flags=None if self.flags is None else self.flags[which],
            born6=None if self.born6 is None else self.born6[which],
            store6=None if self.store6 is None else self.store6[which],
            body_at=self.body_at[which],
            body_to=self.body_to[which],
            topic_at=self.topic_at[which],
            topic_to=self.topic_to[which],
            end=self.end[which],
        )

    @property
    def head(self) -> NDArray[np.void]:
        """The fixed parts as fields; with IPv6 hosts they were put together before."""
        if self.heads is None:
            self.heads = gather(self.raw, self.at, HEAD.size).view(FIELDS)
        return self.heads

    @property
    def sys_flag(self) -> NDArray[np.int32]:
        if self.flags is None:
            self.flags = self.head["sysFlag"].astype(np.int32)
        return self.flags

    @property
    def properties_at(self) -> Ints:
        return self.topic_to + 2

    @property
    def born_host_at(self) -> Ints:
        return self.at + _BORN_HOST_AT

    @property
    def store_host_at(self) -> Ints:
        at = self.at + _STORE_HOST_AT
        return at if self.born6 is None else at + _V6_EXTRA * self.born6


def read(raw: Bytes, at: Ints, sizes: Ints) -> tuple[Rows, CorruptRecord | None]:
    """The rows of records at `at`, up to the first that contradicts itself.

    `raw` holds every record whole and their magic numbers are right (`decode_chase.follow`).
    """
    sound = sizes >= _SMALLEST
    if not sound.all():
        first = int(np.argmin(sound))
        rows, fault = read(raw, at[:first], sizes[:first])
        why = f"a size of {sizes[first]} bytes is too small"
        return rows, fault or _damaged(at[first], sizes[first], why)
    head = gather(raw, at, HEAD.size).view(FIELDS)
    flags = head["sysFlag"].astype(np.int32)
    if not (flags & HOSTS_V6_MASK).any():
        return _lengths(raw, at, sizes, head, flags, None, None)
    born6, store6 = (flags & BORN_V6) != 0, (flags & STORE_V6) != 0
    short = sizes < _SMALLEST + _V6_EXTRA * born6 + _V6_EXTRA * store6
    if short.any():
        first = int(np.argmax(short))
        rows, fault = read(raw, at[:first], sizes[:first])
        why = f"a size of {sizes[first]} bytes is too small for IPv6 hosts"
        return rows, fault or _damaged(at[first], sizes[first], why)
    head = _mixed_heads(raw, at, born6, store6)
    return _lengths(raw, at, sizes, head, flags, born6, store6)


def _mixed_heads(raw: Bytes, at: Ints, born6: Flags, store6: Flags) -> NDArray[np.void]:
    head = np.zeros((len(at), HEAD.size), np.uint8)
    born, both = _V6_EXTRA * born6, _V6_EXTRA * born6 + _V6_EXTRA * store6

    def put(to: int, source: Ints, size: int) -> None:
        head[:, to : to + size] = gather(raw, source, size).view(np.uint8).reshape(-1, size)

    put(0, at, _STORE_TIME_AT)
    put(_STORE_TIME_AT, at + _STORE_TIME_AT + born, 16)
    put(_AFTER_HOSTS_AT, at + _AFTER_HOSTS_AT + both, HEAD.size - _AFTER_HOSTS_AT)
    return head.reshape(-1).view(FIELDS)


def _lengths(
    raw: Bytes,
    at: Ints,
    sizes: Ints,
    head: NDArray[np.void],
    flags: NDArray[np.int32],
    born6: Flags | None,
    store6: Flags | None,
) -> tuple[Rows, CorruptRecord | None]:
    """Where body, topic and properties lie; stops where they do not add up to the size."""
    end = at + sizes
    body_at = at + HEAD.size
    if born6 is not None and store6 is not None:
        body_at = body_at + _V6_EXTRA * born6 + _V6_EXTRA * store6
    body_to = body_at + head["bodyLength"]
    fits = body_to + 3 <= end
    # What does not fit is looked at in a harmless place, and given up below.
    inside = body_to if fits.all() else np.where(fits, body_to, at)
    topic_at: Ints = inside + 1
    topic_to: Ints = topic_at + raw[inside]
    long = head["magic"] == MAGIC_V2
    if long.any():
        topic_at = topic_at + long
        topic_to = np.where(long, topic_at + u16(raw, inside), topic_to)
    fits &= topic_to + 2 <= end
    tail = topic_to if fits.all() else np.where(fits, topic_to, at)
    fits &= tail + 2 + u16(raw, tail) == end
    any_flag = int(np.bitwise_or.reduce(flags))
    places = body_at, body_to, topic_at, topic_to, end
    rows = Rows(raw, at, any_flag, born6, store6, *places, head, flags)
    if fits.all():
        return rows, None
    first = int(np.argmin(fits))
    why = f"its parts do not add up to its {sizes[first]} bytes"
    return rows.pick(slice(first)), _damaged(at[first], sizes[first], why)


def _damaged(at: int, size: int, why: str) -> CorruptRecord:
    return CorruptRecord(int(at), why, resume_at=int(at) + int(size))


def u16(raw: Bytes, at: Ints) -> Ints:
    """The big-endian numbers at the places `at`."""
    return gather(raw, at, 2).view(">u2").astype(np.int64)
