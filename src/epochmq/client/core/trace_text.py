"""RocketMQ's message trace: texts that clients send to RMQ_SYS_TRACE_TOPIC, written and read.

A body has contexts, each ended by 0x02; their fields are separated by 0x01:

    Pub             time region group topic msgId tags keys storeHost bodyLength cost type
                    offsetMsgId ok
    SubBefore       time region group requestId msgId tries keys
    SubAfter        requestId msgId cost ok keys code [time group]
    EndTransaction  time region group topic msgId tags keys storeHost type transactionId state
                    fromCheck

Later versions add fields at the end. Older ones lack the last two of SubAfter, whose group and time
then come from the SubBefore of the same request. Other contexts are skipped.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

FIELD_END, CONTEXT_END = "\x01", "\x02"
PUB, BEFORE, AFTER = "Pub", "SubBefore", "SubAfter"
END_TRANSACTION = "EndTransaction"
REGION = "DefaultRegion"
"""The region of brokers that name none."""
_FIELDS_MIN = {PUB: 11, BEFORE: 7, AFTER: 5}
CODE_DONE, CODE_RAISED, CODE_FAILED = 0, 2, 4
"""How a listener ended, as RocketMQ's ConsumeReturnType: SUCCESS, EXCEPTION, FAILED."""


# Writing -------------------------------------------------------------------------------------


class TracedMessage(NamedTuple):
    """What a trace says of a message."""

    topic: str
    msg_id: str
    tags: str | None
    keys: Sequence[str]
    size: int = 0
    """Bytes of the body."""
    tries: int = 0


def pub_text(
    message: TracedMessage,
    *,
    wall_ms: int,
    region: str | None,
    group: str,
    store_host: str,
    cost_ms: int,
    kind: int,
    offset_msg_id: str | None,
    is_stored: bool,
) -> str:
    """Return the context of one send; `kind` is the number of the kind of message."""
    return _context(
        PUB, wall_ms, region or REGION, group, message.topic, message.msg_id, message.tags,
        " ".join(message.keys), store_host, message.size, cost_ms, kind, offset_msg_id, is_stored,
    )  # fmt: skip


def before_text(
    message: TracedMessage, *, wall_ms: int, region: str | None, group: str, request_id: str
) -> str:
    """Return the context of the begin of a listener call."""
    keys = " ".join(message.keys)
    return _context(BEFORE, wall_ms, region, group, request_id, message.msg_id, message.tries, keys)


def after_text(
    message: TracedMessage,
    *,
    wall_ms: int,
    group: str,
    request_id: str,
    cost_ms: int,
    is_done: bool,
    code: int,
) -> str:
    """Return the context of the end of a listener call; `code` is how it ended."""
    keys = " ".join(message.keys)
    return _context(AFTER, request_id, message.msg_id, cost_ms, is_done, keys, code, wall_ms, group)


def end_transaction_text(
    message: TracedMessage,
    *,
    wall_ms: int,
    group: str,
    store_host: str,
    kind: int,
    transaction_id: str,
    state: str,
    is_answer_to_check: bool,
) -> str:
    """Return the context of the end of a transaction; `state` is COMMIT_MESSAGE or
    ROLLBACK_MESSAGE.
    """
    return _context(
        END_TRANSACTION, wall_ms, REGION, group, message.topic, message.msg_id, message.tags,
        " ".join(message.keys), store_host, kind, transaction_id, state, is_answer_to_check,
    )  # fmt: skip


def _context(*fields: object) -> str:
    return FIELD_END.join(map(_field, fields)) + CONTEXT_END


def _field(value: object) -> str:
    """Return a field as RocketMQ writes it; a text of an application cannot end it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace(FIELD_END, " ").replace(CONTEXT_END, " ")


# Reading -------------------------------------------------------------------------------------


class Traced(NamedTuple):
    """One context of one message; `at` is wall ms, `cost` is ms, both -1 when missing."""

    kind: str
    at: int
    client_group: str | None
    topic: str | None
    msg_id: str
    request_id: str | None
    tries: int
    cost: int
    ok: bool | None


def parse(text: str) -> Iterator[Traced]:
    """Yield the contexts of one body; invalid ones are skipped, since traces are best effort."""
    for context in text.split(CONTEXT_END):
        fields = context.split(FIELD_END)
        if len(fields) >= _FIELDS_MIN.get(fields[0], len(fields) + 1):
            yield _ROWS[fields[0]](fields)


def _pub(fields: list[str]) -> Traced:
    ok = _flag(fields[13]) if len(fields) > 13 else _flag(fields[12]) if len(fields) > 12 else None
    return Traced(
        PUB,
        _number(fields[1]),
        fields[3],
        fields[4],
        fields[5],
        None,
        0,
        _number(fields[10]),
        ok,
    )


def _before(fields: list[str]) -> Traced:
    return Traced(
        BEFORE,
        _number(fields[1]),
        fields[3],
        None,
        fields[5],
        fields[4],
        max(_number(fields[6]), 0),
        -1,
        None,
    )


def _after(fields: list[str]) -> Traced:
    at = _number(fields[7]) if len(fields) > 7 else -1
    group = fields[8] if len(fields) > 8 and fields[8] else None
    cost, ok = _number(fields[3]), _flag(fields[4])
    return Traced(AFTER, at, group, None, fields[2], fields[1], 0, cost, ok)


_ROWS = {PUB: _pub, BEFORE: _before, AFTER: _after}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return -1


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


def rows_of(body: bytes | None) -> list[Traced]:
    """Return the contexts of one message; runs in executors."""
    return list(parse(bytes(body).decode("utf-8", "replace"))) if body else []
