"""POP receipt handles (property POP_CK), and the text fields of a pop's answer.

A receipt handle has eight fields, separated by spaces: `ckOffset popTime invisibleTime reviveQid
mark brokerName queueId msgQueueOffset`. RocketMQ's proxy adds the offset of the message in the
commit log. The client builds the handle from the answer to a pop and sends it back with each
acknowledgement, so it is untrusted input.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from epochmq.base.errors import Refused
from epochmq.wire.codes import ResponseCode

LENGTH_MAX = 512
_FORM = re.compile(
    r"([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,9}) ([012]) (\S{1,127}) ([0-9]{1,9})"
    r"(?: ([0-9]{1,18})(?: -?[0-9]{1,18})?)?"
)


class ReceiptHandle(NamedTuple):
    """The fields of a receipt handle.

    `offset` is the queue offset of the message; None if the handle names only a check point.
    """

    start: int
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    mark: str
    broker_name: str
    queue_id: int
    offset: int | None


def parse_handle(text: str) -> ReceiptHandle:
    """Parse a receipt handle; raises `Refused` (MESSAGE_ILLEGAL) if the form is wrong."""
    found = _FORM.fullmatch(text) if len(text) <= LENGTH_MAX else None
    if found is None:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            "the extraInfo is not a receipt handle that a pop gives out",
        )
    start, pop_time, invisible, revive, mark, broker, queue, offset = found.groups()
    return ReceiptHandle(
        int(start),
        int(pop_time),
        int(invisible),
        int(revive),
        mark,
        broker,
        int(queue),
        None if offset is None else int(offset),
    )


class Infos:
    """Builds the three text fields of a pop's answer: start offsets, offsets and order counts."""

    def __init__(self) -> None:
        self._starts: list[str] = []
        self._offsets: list[str] = []
        self._counts: list[str] = []

    def add(self, mark: str, queue_id: int, start: int, offsets: Sequence[int]) -> None:
        self._starts.append(f"{mark} {queue_id} {start}")
        self._offsets.append(f"{mark} {queue_id} {','.join(map(str, offsets))}")

    def count(self, mark: str, queue_id: int, times: dict[int, int], least: int) -> None:
        """Add how often messages of an ordered pop were delivered before, by queue offset.

        `least` is the smallest count of the queue, for 5.0 clients.
        """
        for offset, count in times.items():
            self._counts.append(f"{mark} qo{queue_id}%{offset} {count}")
        self._counts.append(f"{mark} {queue_id} {least}")

    @property
    def starts(self) -> str:
        return ";".join(self._starts)

    @property
    def offsets(self) -> str:
        return ";".join(self._offsets)

    @property
    def counts(self) -> str | None:
        return ";".join(self._counts) or None
