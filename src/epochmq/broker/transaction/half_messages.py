"""Half messages and op messages: how they are made, read, copied and turned into real messages.

Half messages are stored in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC. Their real topic and queue are in
REAL_TOPIC and REAL_QID. They have no transaction bits, so that they have a unit in that queue. A
copy has the queue offset of the first half message in TRAN_PREPARED_QUEUE_OFFSET, and the number of
checks so far in TRANSACTION_CHECK_TIMES. The real message has the transaction bits of a commit, and
the log offset of its half message in the record's `preparedTransactionOffset`.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

import msgspec

from epochmq.base.errors import Refused
from epochmq.base.limits import PROPERTIES_BYTES_MAX, QUEUES_PER_TOPIC_MAX
from epochmq.base.ports import Buffer
from epochmq.base.unbounded import FOREVER
from epochmq.broker.consume.consumer_offsets import TRANSACTIONS
from epochmq.broker.delay.delayed import index_keys
from epochmq.broker.transaction.open_transactions import Half
from epochmq.broker.transaction.transaction_counts import TopicTransactions, TransactionCounts
from epochmq.model import property_names as names
from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.log_blocks import digest
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.model.properties import (
    decode,
    decode_bytes,
    encode_loosely,
    find,
    find_by,
    needle_of,
)
from epochmq.model.sys_flag import (
    TX_COMMIT,
    TX_NONE,
    TX_PREPARED,
    transaction_type,
    with_transaction_type,
)
from epochmq.model.tags import java_hash, tags_code
from epochmq.store.draft import Draft
from epochmq.store.message_index import IndexResult
from epochmq.store.read import ReadResult
from epochmq.wire.codes import ResponseCode

GROUP = TRANSACTIONS
OP_TAG = "d"
_ROOM = 128
"""Bytes reserved for the properties that the broker adds to copies."""
_OURS = (
    names.TRAN_PREPARED_QUEUE_OFFSET,
    names.TRANSACTION_CHECK_TIMES,
    names.REAL_TOPIC,
    names.REAL_QID,
)
_LATER = (
    names.DELAY,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    names.TIMER_DELIVER_MS,
    names.TIMER_DEL_UNIQKEY,
)
"""Properties of delayed messages, which are removed from half messages. RocketMQ's clients remove
them; its broker would delay the half message, and lose it."""
_ORIGIN = names.TRAN_PREPARED_QUEUE_OFFSET.encode()
_IMMUNITY = names.CHECK_IMMUNITY_TIME_IN_SECONDS.encode()
_GROUP = names.PGROUP.encode()
_NOT_COUNTED = TopicTransactions()
"""For half messages that are only looked at."""
_CHECKS = names.TRANSACTION_CHECK_TIMES.encode()
_ORIGIN_NEEDLE, _IMMUNITY_NEEDLE, _CHECKS_NEEDLE, _GROUP_NEEDLE, _REAL_TOPIC_NEEDLE = map(
    needle_of, (_ORIGIN, _IMMUNITY, _CHECKS, _GROUP, names.REAL_TOPIC.encode())
)
_UNIQ_KEY = names.UNIQ_KEY.encode()
_TRAN_MSG = b"\x02%b\x01true\x02" % names.TRAN_MSG.encode()
_UNWANTED = tuple(name.encode() for name in (*_OURS, *_LATER, names.TRANSACTION_ID))
_PLACE = b"\x02%b\x01%%b\x02%b\x01%%b\x02%b\x01%%d" % (
    names.TRANSACTION_ID.encode(), names.REAL_TOPIC.encode(), names.REAL_QID.encode()
)  # fmt: skip


def prepare(draft: Draft, group: str) -> Draft:
    """Make the half message of `draft` for producer group `group`.

    The broker's own properties are replaced if the client has set them. Raises `Refused`
    (MESSAGE_ILLEGAL) if the properties are too large.
    """
    encoded = _plainly(draft) or _encode_without_reserved(draft, group)
    if len(encoded) + _ROOM > PROPERTIES_BYTES_MAX:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is illegal: properties of a transactional message may have"
            f" {PROPERTIES_BYTES_MAX - _ROOM} bytes, the broker's own included",
        )
    return Draft(
        HALF_TOPIC,
        0,
        draft.body,
        encoded,
        draft.tags_code,
        draft.keys,
        draft.flag,
        with_transaction_type(draft.sys_flag, TX_NONE),
        draft.born_wall_ms,
        draft.born_host,
        draft.reconsume_times,
    )


def _plainly(draft: Draft) -> bytes | None:
    """Return the properties with the broker's appended; None if a property must be replaced.

    This is the fast path for the properties of usual producers.
    """
    text = draft.properties
    uniq = find(text, _UNIQ_KEY)
    if uniq is None or _TRAN_MSG not in text or find(text, _GROUP) is None:
        return None
    for name in _UNWANTED:
        if name in text:
            return None
    ours = _PLACE % (uniq, draft.topic.encode(), draft.queue_id)
    return text + ours[1:] if text.endswith(b"\x02") else text + ours


def _encode_without_reserved(draft: Draft, group: str) -> bytes:
    properties = decode(draft.properties.decode())
    for name in (*_OURS, *_LATER):
        properties.pop(name, None)
    properties.setdefault(names.PGROUP, group)
    properties[names.TRAN_MSG] = "true"
    uniq = properties.get(names.UNIQ_KEY)
    if uniq:
        properties[names.TRANSACTION_ID] = uniq
    properties[names.REAL_TOPIC] = draft.topic
    properties[names.REAL_QID] = str(draft.queue_id)
    return encode_loosely(properties).encode()


def read_half(raw: Buffer, topics: TransactionCounts | None = None) -> Half:
    """Decode the record `raw` of a half message into the fields that `Transactions` keeps.

    It gets the counts of its topic from `topics`.
    """
    size, _, queue_offset, offset, *_, properties = record.fields_at(raw, 0)
    # Usual half messages have none of these three: a search of the bytes costs less than a call.
    first = _number_of(properties, _ORIGIN_NEEDLE) if _ORIGIN in properties else -1
    seconds = _number_of(properties, _IMMUNITY_NEEDLE) if _IMMUNITY in properties else -1
    checks = _number_of(properties, _CHECKS_NEEDLE) if _CHECKS in properties else -1
    return Half(
        queue_offset=queue_offset,
        offset=offset,
        size=size,
        origin=first if 0 <= first < queue_offset else queue_offset,
        group=_text(properties, _GROUP_NEEDLE),
        born_wall_ms=record.born_time_at(raw, 0),
        immunity_ms=-1 if seconds < 0 else seconds * 1000,
        checks=max(0, checks),
        counts=(_NOT_COUNTED if topics is None
                else topics.of_topic(find_by(properties, _REAL_TOPIC_NEEDLE) or b"")),
    )  # fmt: skip


def identity(raw: Buffer) -> str:
    """Return an identity that a half message and all its copies share: 16 hexadecimal digits.

    It is a digest of born time, producer group, UNIQ_KEY and body, so it differs between
    transactions.
    """
    properties = record.properties_at(raw, 0)
    group, key = _found(properties, _GROUP), _found(properties, _UNIQ_KEY)
    start, end = record.body_span(raw, 0)
    said = f"{record.born_time_at(raw, 0)}\x01{group}\x01{key}\x01"
    return digest([said.encode(), raw[start:end]])[:16]


def _found(properties: bytes, name: bytes) -> str:
    return _text(properties, needle_of(name))


def _text(properties: bytes, needle: bytes) -> str:
    value = find_by(properties, needle)
    return "" if value is None else value.decode("utf-8", "replace")


def _number_of(properties: bytes, needle: bytes) -> int:
    return _number(_text(properties, needle))


def _number(text: str) -> int:
    """Parse a decimal number of up to 18 digits; -1 for everything else."""
    return int(text) if len(text) < 19 and text.isascii() and text.isdecimal() else -1


def real_place(message: StoredMessage) -> tuple[str, int] | None:
    """Return the real topic and queue id of a half message; None if they are not valid."""
    topic = message.properties.get(names.REAL_TOPIC, "")
    queue_id = message.properties.get(names.REAL_QID, "0")
    number = _number(queue_id)
    if topic in ("", HALF_TOPIC, OP_HALF_TOPIC) or not 0 <= number < QUEUES_PER_TOPIC_MAX:
        return None
    return topic, number


def real(message: StoredMessage) -> Draft | None:
    """Make the real message that a commit writes; None without a valid real topic and queue."""
    place = real_place(message)
    if place is None:
        return None
    properties = _without(message.properties, *_OURS, *_LATER, names.TRAN_MSG)
    flag = with_transaction_type(message.sys_flag, TX_COMMIT)
    return _draft(message, *place, properties, sys_flag=flag, prepared=message.offset)


def copy(message: StoredMessage, half: Half, *, checks: int) -> Draft:
    """Make a copy of the half message, with `checks` as its number of checks."""
    properties = {
        **message.properties,
        names.TRAN_PREPARED_QUEUE_OFFSET: str(half.origin),
        names.TRANSACTION_CHECK_TIMES: str(checks),
    }
    return _draft(message, HALF_TOPIC, 0, properties, sys_flag=message.sys_flag)


def handed_over(message: StoredMessage, home: str) -> Draft | None:
    """Restore the message as its producer sent it, for the master of another group (RIP-32).

    That master stores it as its own half message and checks back with the producer. The number of
    checks stays in it, for masters that continue counting. `home` (`brokerName@queueOffset`) is the
    place of the very first half message, which the producer knows. Returns None without a valid
    real topic and queue.
    """
    place = real_place(message)
    if place is None:
        return None
    dropped = (names.TRAN_PREPARED_QUEUE_OFFSET, names.REAL_TOPIC, names.REAL_QID)
    properties = {names.HALF_OF: home, **_without(message.properties, *dropped)}
    properties[names.TRAN_MSG] = "true"
    flag = with_transaction_type(message.sys_flag, TX_PREPARED)
    return _draft(message, *place, properties, sys_flag=flag)


def given_up(message: StoredMessage) -> Draft:
    """Make the copy for TRANS_CHECK_MAX_TIME_TOPIC, where operators find given-up half messages.

    It keeps the real topic and queue, and the log offset of the half message.
    """
    return _draft(
        message,
        TRANS_CHECK_MAX_TIME_TOPIC,
        0,
        message.properties,
        sys_flag=message.sys_flag,
        prepared=message.offset,
    )


def resumed(message: StoredMessage, broker_name: str) -> Draft | None:
    """Make a half message without checks from one that was given up.

    The place of the first half message, if known, stays in it, because the producer knows it by
    that place. Returns None without a valid real topic and queue.
    """
    if real_place(message) is None:
        return None
    origin = message.properties.get(names.TRAN_PREPARED_QUEUE_OFFSET, "?")
    properties = {
        names.HALF_OF: f"{broker_name}@{origin}",
        **_without(message.properties, names.TRAN_PREPARED_QUEUE_OFFSET),
        names.TRANSACTION_CHECK_TIMES: "0",
    }
    return _draft(message, HALF_TOPIC, 0, properties, sys_flag=message.sys_flag)


def shown(message: StoredMessage, place: tuple[str, int], origin: int) -> StoredMessage:
    """Make the message for CHECK_TRANSACTION_STATE, with the real topic and queue id in `place`.

    `origin`, the queue offset of the first half message, identifies the transaction, even before a
    copy exists.
    """
    properties = _without(message.properties, names.REAL_TOPIC, names.REAL_QID)
    return msgspec.structs.replace(
        message,
        topic=place[0],
        queue_id=place[1],
        properties={**properties, names.TRAN_PREPARED_QUEUE_OFFSET: str(origin)},
    )


def op(offsets: list[int], wall: int, host: bytes) -> Draft:
    """Make an op message with the queue offsets of half messages that are over, as in 5.3."""
    return Draft(
        topic=OP_HALF_TOPIC,
        queue_id=0,
        body="".join(f"{at}," for at in offsets).encode(),
        properties=f"{names.TAGS}\x01{OP_TAG}".encode(),
        tags_code=java_hash(OP_TAG),
        born_wall_ms=wall,
        born_host=host,
    )


def op_offsets(raw: Buffer) -> list[int]:
    """Return the queue offsets in an op message; empty for other tags.

    An op message of 5.0 contains one offset without a comma.
    """
    if decode_bytes(record.properties_at(raw, 0)).get(names.TAGS) != OP_TAG:
        return []
    start, end = record.body_span(raw, 0)
    pieces = bytes(raw[start:end]).split(b",")
    return [int(piece) for piece in pieces if piece.isdigit() and len(piece) < 19]


def _without(properties: dict[str, str], *unwanted: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in unwanted}


def _draft(
    message: StoredMessage,
    topic: str,
    queue_id: int,
    properties: dict[str, str],
    *,
    sys_flag: int,
    prepared: int = 0,
) -> Draft:
    return Draft(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=encode_loosely(properties).encode(),
        tags_code=tags_code(properties.get(names.TAGS)),
        keys=index_keys(properties),
        flag=message.flag,
        sys_flag=sys_flag,
        born_wall_ms=message.born_wall_ms,
        born_host=pack(*message.born_host),
        reconsume_times=message.reconsume_times,
        prepared_offset=prepared,
    )


# Log lookup ----------------------------------------------------------------------------------
# Searches the log for the result of a transaction, before anything is written for it.
#
# A commit writes the real message first and the op message a little later. If a master dies in
# between, the half message looks open although the transaction is over. The real message proves
# this: it has the transaction bits of a commit, the same UNIQ_KEY, and the log offset of the half
# message. For a half message that was given up, the copy for operators proves it in the same way.


_SAME_KEY_MAX = 64
"""Limit of the messages with one UNIQ_KEY that are compared, the newest first."""
_WALK_COUNT = 512
_WALK_BYTES = 4 * 1024 * 1024
_LOOKED_AT_MAX = 4_096
"""Limit of the half messages, and of the op messages, that are read behind a half message."""
_HALF = HALF_TOPIC.encode()


class LookupStore(Protocol):
    """The part of the store that the lookup uses."""

    def query_index(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> IndexResult: ...

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None: ...

    def offset_at_place(self, topic: str, queue_id: int, log_offset: int) -> int: ...

    def read_queue(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> ReadResult: ...


def is_committed(store: LookupStore, raw: Buffer, *, indexed: bool) -> bool:
    """Return whether the log holds the real message of the half message with record `raw`.

    Uses the key index; without an index (messageIndexEnable=false) it reads the real queue from the
    half message to the end.
    """
    message = record.decode(raw)
    place = real_place(message)
    found = () if place is None else _near(store, message, place, indexed)
    origin = read_half(raw).origin
    return any(
        transaction_type(record.sys_flag_at(one, 0)) == TX_COMMIT
        and _is_of(store, one, message.offset, origin)
        for one in found
    )


def is_given_up(store: LookupStore, raw: Buffer, *, indexed: bool) -> bool:
    """Return whether TRANS_CHECK_MAX_TIME_TOPIC holds the half message with record `raw`."""
    message, origin = record.decode(raw), read_half(raw).origin
    found = _near(store, message, (TRANS_CHECK_MAX_TIME_TOPIC, 0), indexed)
    return any(_is_of(store, one, message.offset, origin) for one in found)


def is_named(store: LookupStore, raw: Buffer) -> bool:
    """Return whether an op message names the half message with record `raw`, or a copy of it.

    A half message that is over and not named was handed over by an acting master. The search is
    limited, so an op message that was written much later is not found.
    """
    half = read_half(raw)
    names = {half.origin, half.queue_offset}
    for other in islice(_walk(store, (HALF_TOPIC, 0), half.offset), _LOOKED_AT_MAX):
        copy = read_half(other)
        if copy.origin == half.origin:
            names.add(copy.queue_offset)
    ops = islice(_walk(store, (OP_HALF_TOPIC, 0), half.offset), _LOOKED_AT_MAX)
    return any(names.intersection(op_offsets(one)) for one in ops)


def _near(
    store: LookupStore, message: StoredMessage, place: tuple[str, int], indexed: bool
) -> Iterable[memoryview]:
    """Return records of queue `place` that may have been made from the half message `message`."""
    if indexed and message.uniq_key:
        return store.query_index(place[0], message.uniq_key, _SAME_KEY_MAX, 0, FOREVER).records
    return _walk(store, place, message.offset)


def _is_of(store: LookupStore, found: memoryview, half_at: int, origin: int) -> bool:
    """Return whether `found` was made from the half message at log offset `half_at` or a copy."""
    prepared = record.prepared_offset_at(found, 0)
    if prepared == half_at:
        return True
    raw = store.message_at(prepared)
    return raw is not None and record.topic_at(raw, 0) == _HALF and read_half(raw).origin == origin


def _walk(store: LookupStore, place: tuple[str, int], log_offset: int) -> Iterator[memoryview]:
    at = store.offset_at_place(*place, log_offset)
    while True:
        found = store.read_queue(*place, max(at, 0), _WALK_COUNT, _WALK_BYTES)
        yield from records_of(found)
        if not found.count or found.next_offset <= at:
            return
        at = found.next_offset


def records_of(found: ReadResult) -> Iterator[memoryview]:
    """Yield each record of a read; one chunk may hold several adjacent records."""
    for chunk in found.chunks:
        at = 0
        while at < len(chunk):
            size = record.size_at(chunk, at)
            yield chunk[at : at + size]
            at += size
