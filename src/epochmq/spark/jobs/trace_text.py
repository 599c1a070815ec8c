"""Parses RocketMQ's message trace: texts that clients send to RMQ_SYS_TRACE_TOPIC, as rows.

A body has contexts, each ended by 0x02; their fields are separated by 0x01:

    Pub        time region group topic msgId tags keys storeHost bodyLength cost type offsetMsgId ok
    SubBefore  time region group requestId msgId tries keys
    SubAfter   requestId msgId cost ok keys code [time group]

Later versions add fields at the end. Older ones lack the last two of SubAfter, whose group and time
then come from the SubBefore of the same request. Other contexts (EndTransaction, Recall) are
skipped.
"""

from collections.abc import Iterator
from typing import NamedTuple

FIELD_END, CONTEXT_END = "\x01", "\x02"
PUB, BEFORE, AFTER = "Pub", "SubBefore", "SubAfter"
ROWS_DDL = (
    "array<struct<kind: string, at: bigint, clientGroup: string, topic: string, msgId: string,"
    " requestId: string, tries: int, cost: bigint, ok: boolean>>"
)
_FIELDS_MIN = {PUB: 11, BEFORE: 7, AFTER: 5}


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
