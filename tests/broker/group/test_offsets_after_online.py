"""What a master takes back while it serves; with a real slave: tests/broker/acting."""

import asyncio

import pytest
from tests.broker.fake_node import FakeNode

from epochmq.broker.group.acting_progress import OffsetsAfterOnline
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command

OFFSETS = b'{"offsetTable":{"T@G":{"0":%d}},"dataVersion":{"counter":1}}'


class Member(Peers):
    """A former acting master; gives set answers, and commits until it steps down."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = 7
        self.asked: list[int] = []
        self.refuses: int | None = None
        self.body = OFFSETS

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.asked.append(command.code)
        if command.code == self.refuses:
            return Command(ResponseCode.SYSTEM_ERROR, remark="not now")
        if command.code == RequestCode.EXCHANGE_BROKER_HA_INFO:
            self.offset += 1
            return Command(ResponseCode.SUCCESS)
        return Command(ResponseCode.SUCCESS, body=self.body % self.offset)


async def take(member: Peers) -> FakeNode:
    node = FakeNode()
    node.fake.put("T", 0, *[b"x"] * 10)
    late = OffsetsAfterOnline(node, member)
    late.begin("10.0.0.2:1")
    late.begin("10.0.0.2:1")
    assert late._task is not None
    await late._task
    await late.stop()
    return node


async def test_what_was_committed_until_the_step_down_is_taken() -> None:
    member = Member()
    node = await take(member)
    assert node.offsets.get("G", "T", 0) == 8
    pull, step_down = RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.EXCHANGE_BROKER_HA_INFO
    assert member.asked == [pull, step_down, pull]


async def test_the_debt_stays_where_nothing_could_be_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = Member()
    member.refuses = RequestCode.GET_ALL_CONSUMER_OFFSET
    await take(member)
    assert member.asked == [RequestCode.GET_ALL_CONSUMER_OFFSET]
    assert "not taken back yet: refused with 1 not now" in caplog.text
    member = Member()
    member.body = b"%d"
    await take(member)
    assert RequestCode.EXCHANGE_BROKER_HA_INFO not in member.asked


async def test_without_a_slave_and_with_an_unreachable_one() -> None:
    node = FakeNode()
    late = OffsetsAfterOnline(node, Peers())
    late.begin("")
    await late.stop()
    assert late._task is None
    late.begin(f"127.0.0.1:{free_port('127.0.0.1')}")
    assert late._task is not None
    await asyncio.wait([late._task])
    assert late._task.exception() is None
    await late.stop()
