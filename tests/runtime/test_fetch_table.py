"""Fetching a table that comes in parts."""

import pytest

from epochmq.base.errors import PeerError
from epochmq.runtime.fetch_table import fetch_table
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command
from epochmq.wire.table_parts import decode_object

CODE = RequestCode.GET_ALL_TOPIC_CONFIG


async def test_each_part_is_asked_for() -> None:
    asked: list[dict[str, str] | None] = []

    async def ask(command: Command) -> Command:
        assert command.code == CODE
        asked.append(command.ext)
        count = len(asked)
        ext = {"stamp": f"7.{count}", "delta": str(count > 1), "more": str(count < 3)}
        return Command(0, ext=ext, body=b'{"rows":{"r%d":1}}' % count)

    assert await fetch_table(CODE, decode_object, ask) == {"rows": {"r1": 1, "r2": 1, "r3": 1}}
    first = {"inParts": "true"}
    assert asked == [first, {**first, "sinceStamp": "7.1"}, {**first, "sinceStamp": "7.2"}]


async def test_a_broker_without_the_table() -> None:
    async def ask(command: Command) -> None:
        return None

    assert await fetch_table(CODE, decode_object, ask) is None


async def test_an_answer_that_is_not_a_table() -> None:
    async def ask(command: Command) -> Command:
        return Command(0, body=b"[]")

    with pytest.raises(PeerError, match="request 21 is not a table"):
        await fetch_table(CODE, decode_object, ask)
