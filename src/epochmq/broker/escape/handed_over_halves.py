"""Where half messages went that were handed over, so that an end that comes later follows them.

In memory: what is forgotten is asked for by the master that has it.
"""

from collections import OrderedDict
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.errors import HeaderError
from epochmq.broker.escape.forward_batch import ForwardedMessage
from epochmq.model import property_names as prop
from epochmq.model.message_id import BadMessageId, parse_offset_id
from epochmq.model.properties import decode_bytes
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.wire.command import Command
from epochmq.wire.headers.fast_headers import AnyEnd
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.send_headers import SendResponseHeader
from epochmq.wire.headers.transaction_headers import EndTransactionHeader


class _Place(NamedTuple):
    address: str
    queue_offset: int
    offset: int
    topic: str


class HandedOverHalves:
    """By producer group and UNIQ_KEY, the newest so many."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, str], _Place] = OrderedDict()

    def note(self, item: ForwardedMessage, address: str, answer: Command) -> None:
        """A master holds `item`, which may be a half message; its answer says where."""
        if not item.draft.sys_flag & TX_PREPARED:
            return
        properties = decode_bytes(item.draft.properties)
        try:
            said = decode_header(SendResponseHeader, answer.ext)
            at = parse_offset_id(said.msgId)[2]
        except (HeaderError, BadMessageId):
            return
        key = properties.get(prop.PGROUP, ""), properties.get(prop.UNIQ_KEY, "")
        self._places[key] = _Place(address, said.queueOffset, at, item.topic)
        if len(self._places) > limits.TRANSACTIONS_OPEN_MAX:
            self._places.popitem(last=False)

    def follow(self, header: AnyEnd, key: str) -> tuple[str, EndTransactionHeader] | None:
        """The address, and the end as it is to be asked for there; None for one that is unknown."""
        place = self._places.get((header.producerGroup, key))
        if place is None:
            return None
        return place.address, EndTransactionHeader(
            producerGroup=header.producerGroup,
            tranStateTableOffset=place.queue_offset,
            commitLogOffset=place.offset,
            commitOrRollback=header.commitOrRollback,
            msgId=key,
            fromTransactionCheck=header.fromTransactionCheck,
            transactionId=header.transactionId,
            topic=place.topic,
        )
