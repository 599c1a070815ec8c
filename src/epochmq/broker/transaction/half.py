"""A half message made of a sender's message, and what is made of it later.

Half messages lie in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC with their real place in REAL_TOPIC and
REAL_QID, and with no transaction bits, so that they have a unit in that queue. A copy carries the
queue offset of the first one in TRAN_PREPARED_QUEUE_OFFSET and the checks so far in
TRANSACTION_CHECK_TIMES. The real message has the bits of a commit, and the position of the half
message it was made of in the record's `preparedTransactionOffset`.
"""

import msgspec

from epochmq.base.errors import Refused
from epochmq.base.limits import PROPERTIES_BYTES_MAX, QUEUES_PER_TOPIC_MAX
from epochmq.base.types import Buffer
from epochmq.broker.handlers.send_properties import encode_loosely
from epochmq.broker.offsets.consumer_offsets import TRANSACTIONS
from epochmq.broker.schedule.delayed import index_keys
from epochmq.broker.transaction.open_transactions import Half
from epochmq.model import property_names as names
from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.log_blocks import digest
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.model.properties import decode, decode_bytes, find
from epochmq.model.sys_flag import TX_COMMIT, TX_NONE, TX_PREPARED, with_transaction_type
from epochmq.model.tags import java_hash, tags_code
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode

GROUP = TRANSACTIONS
OP_TAG = "d"
_ROOM = 128
"""Bytes of properties that copies need beside what was sent."""
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
"""RocketMQ's clients take these away; its broker would delay the half message, and lose it."""
_ORIGIN = names.TRAN_PREPARED_QUEUE_OFFSET.encode()
_IMMUNITY = names.CHECK_IMMUNITY_TIME_IN_SECONDS.encode()
_GROUP = names.PGROUP.encode()
_CHECKS = names.TRANSACTION_CHECK_TIMES.encode()
_UNIQ_KEY = names.UNIQ_KEY.encode()
_TRAN_MSG = b"\x02%b\x01true\x02" % names.TRAN_MSG.encode()
_UNWANTED = tuple(name.encode() for name in (*_OURS, *_LATER, names.TRANSACTION_ID))
_PLACE = b"\x02%b\x01%%b\x02%b\x01%%b\x02%b\x01%%d" % (
    names.TRANSACTION_ID.encode(), names.REAL_TOPIC.encode(), names.REAL_QID.encode()
)  # fmt: skip


def prepare(draft: Draft, group: str) -> Draft:
    """`draft` as a half message of producer group `group`; raises `Refused`.

    What a client says of itself in the properties that are the broker's is not believed.
    """
    encoded = _plainly(draft) or _anew(draft, group)
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
    """Its properties with ours behind them, the way all producers but odd ones send them."""
    text = draft.properties
    uniq = find(text, _UNIQ_KEY)
    if uniq is None or _TRAN_MSG not in text or find(text, _GROUP) is None:
        return None
    for name in _UNWANTED:
        if name in text:
            return None
    ours = _PLACE % (uniq, draft.topic.encode(), draft.queue_id)
    return text + ours[1:] if text.endswith(b"\x02") else text + ours


def _anew(draft: Draft, group: str) -> bytes:
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


def read_half(raw: Buffer) -> Half:
    """What the core keeps of the half message whose record `raw` is."""
    size, _, queue_offset, offset, *_, properties = record.fields_at(raw, 0)
    first = _number(_found(properties, _ORIGIN))
    seconds = _number(_found(properties, _IMMUNITY))
    return Half(
        queue_offset=queue_offset,
        offset=offset,
        size=size,
        origin=first if 0 <= first < queue_offset else queue_offset,
        group=_found(properties, _GROUP),
        born_wall_ms=record.born_time_at(raw, 0),
        immunity_ms=-1 if seconds < 0 else seconds * 1000,
        checks=max(0, _number(_found(properties, _CHECKS))),
    )


def identity(raw: Buffer) -> str:
    """What the record of a half message and those of all its copies have in common, and no other
    transaction's: 16 hexadecimal digits of when it was sent, by whom, its key and its body."""
    properties = record.properties_at(raw, 0)
    group, key = _found(properties, _GROUP), _found(properties, _UNIQ_KEY)
    start, end = record.body_span(raw, 0)
    said = f"{record.born_time_at(raw, 0)}\x01{group}\x01{key}\x01"
    return digest([said.encode(), raw[start:end]])[:16]


def _found(properties: bytes, name: bytes) -> str:
    value = find(properties, name)
    return "" if value is None else value.decode("utf-8", "replace")


def _number(text: str) -> int:
    """A decimal number of up to 18 digits; -1 for everything else."""
    return int(text) if len(text) < 19 and text.isascii() and text.isdecimal() else -1


def real_place(message: StoredMessage) -> tuple[str, int] | None:
    """Topic and queue a half message is for; None when it names none that could be."""
    topic = message.properties.get(names.REAL_TOPIC, "")
    queue_id = message.properties.get(names.REAL_QID, "0")
    number = _number(queue_id)
    if topic in ("", HALF_TOPIC, OP_HALF_TOPIC) or not 0 <= number < QUEUES_PER_TOPIC_MAX:
        return None
    return topic, number


def real(message: StoredMessage) -> Draft | None:
    """The message that its transaction's commit writes; None when it can go nowhere."""
    place = real_place(message)
    if place is None:
        return None
    properties = _without(message.properties, *_OURS, *_LATER, names.TRAN_MSG)
    flag = with_transaction_type(message.sys_flag, TX_COMMIT)
    return _draft(message, *place, properties, sys_flag=flag, prepared=message.offset)


def copy(message: StoredMessage, half: Half, *, checks: int) -> Draft:
    """The half message once more, at the end of its queue."""
    properties = {
        **message.properties,
        names.TRAN_PREPARED_QUEUE_OFFSET: str(half.origin),
        names.TRANSACTION_CHECK_TIMES: str(checks),
    }
    return _draft(message, HALF_TOPIC, 0, properties, sys_flag=message.sys_flag)


def handed_over(message: StoredMessage, home: str) -> Draft | None:
    """It as its producer sent it, for the master of another group; None when it can go nowhere.

    That one keeps it as a half message of its own, and asks the producer (RIP-32). How often it was
    asked for stays with it, for masters that count on. `home` is the place of the first one of all,
    by which its producer knows it.
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
    """It as it is kept for operators: its real place is named still, and the half message's."""
    return _draft(
        message,
        TRANS_CHECK_MAX_TIME_TOPIC,
        0,
        message.properties,
        sys_flag=message.sys_flag,
        prepared=message.offset,
    )


def resumed(message: StoredMessage, broker_name: str) -> Draft | None:
    """One that was given up, as a half message of which nothing was asked yet; None when it can go
    nowhere. Its producer still knows it by the place of the first one, where that is known."""
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
    """It as its producer is shown it by CHECK_TRANSACTION_STATE: in its real place.

    Which transaction it is says the place of the first half message, also before there is a copy.
    """
    properties = _without(message.properties, names.REAL_TOPIC, names.REAL_QID)
    return msgspec.structs.replace(
        message,
        topic=place[0],
        queue_id=place[1],
        properties={**properties, names.TRAN_PREPARED_QUEUE_OFFSET: str(origin)},
    )


def op(offsets: list[int], wall: int, host: bytes) -> Draft:
    """One op message: the queue offsets of half messages that are over, as 5.3 writes them."""
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
    """The offsets an op message names; 5.0 names one, without a comma. None for other tags."""
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
