"""What a relay does with the requests of one client, without sockets."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from epochmq.base import limits
from epochmq.relay.relayed_client import (
    CLIENT_BYTES_MAX,
    REFUSED_MS,
    REPEATED,
    SENDS,
    HeldBytes,
    RelayedClient,
)
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, decode, encode_frame
from epochmq.wire.frame import FrameReader

HOLD_MS = 5_000
PULL, SEND, CREATE = Code.PULL_MESSAGE, Code.SEND_MESSAGE_V2, Code.UPDATE_AND_CREATE_TOPIC


class Side:
    """One client through a relay, as the client and the master see it."""

    def __init__(self, *, resend_sends: bool = True, limit: int = 1 << 30) -> None:
        self.held = HeldBytes(limit)
        self.core = RelayedClient(HOLD_MS, self.held, resend_sends=resend_sends)

    def ask(self, code: int, opaque: int, now: int = 0, body: bytes = b"", flag: int = 0) -> None:
        data = encode_frame(Command(code, opaque=opaque, flag=flag, body=body))
        assert self.core.from_client(memoryview(data), 0, len(data), now) == len(data)

    def answer(self, opaque: int, code: int = 0, now: int = 0, flag: int = FLAG_RESPONSE) -> None:
        data = encode_frame(Command(code, opaque=opaque, flag=flag))
        assert self.core.from_master(memoryview(data), 0, len(data), now) == len(data)

    def at_master(self) -> list[int]:
        """The opaques that the master has got since the last call."""
        return [command.opaque for command in popped(self.core.to_master)]

    def at_client(self) -> list[tuple[int, int]]:
        """(opaque, code) of what the client has got since the last call."""
        return [(command.opaque, command.code) for command in popped(self.core.to_client)]


def popped(chunks: list) -> list[Command]:  # type: ignore[type-arg]
    data = b"".join(chunks)
    chunks.clear()
    frames = FrameReader(limits.ANSWER_HEADER_BYTES_MAX).feed(data)
    return [decode(frame.header, frame.binary, bytes(frame.body)) for frame in frames]


def test_requests_and_answers_pass_unchanged() -> None:
    side = Side()
    side.core.master_connected()
    data = b"".join(encode_frame(Command(SEND, opaque=n, body=b"x" * n)) for n in range(3))
    part = memoryview(b"??" + data + b"\0\0")
    assert side.core.from_client(part, 2, len(part), 0) == len(data)
    assert b"".join(side.core.to_master) == data
    side.core.to_master.clear()
    side.answer(1)
    side.answer(0)
    assert side.at_client() == [(1, 0), (0, 0)]
    assert 0 < side.held.total < len(data)
    side.answer(2)
    assert side.held.total == 0


def test_without_a_master_requests_wait_in_order() -> None:
    side = Side()
    side.ask(SEND, 1)
    side.ask(PULL, 2)
    side.ask(Code.END_TRANSACTION, 3, flag=FLAG_ONEWAY)
    assert side.at_master() == []
    assert side.core.waiting == 2
    side.core.master_connected()
    assert side.at_master() == [1, 2, 3]
    assert side.core.waiting == 0
    side.core.send_waiting()
    assert side.at_master() == []


def test_a_new_master_gets_the_last_heartbeat_first() -> None:
    side = Side()
    side.core.master_connected()
    side.ask(Code.HEART_BEAT, 1, body=b"old")
    side.ask(Code.HEART_BEAT, 2, body=b"new")
    side.answer(1)
    side.answer(2)
    side.ask(PULL, 3)
    side.at_master(), side.at_client()
    side.core.master_lost()
    side.core.master_connected()
    first, second = popped(side.core.to_master)
    assert (first.code, first.body) == (Code.HEART_BEAT, b"new")
    assert second.opaque == 3
    side.answer(2)
    assert side.at_client() == [], "the client has had this answer"


def test_a_heartbeat_without_subscriptions_does_not_replace_one_with_them() -> None:
    side = Side()
    side.core.master_connected()
    side.ask(Code.HEART_BEAT, 1, body=b'{"whole":1}')
    side.ask(Code.HEART_BEAT, 2, body=b'{"withoutSub":true}')
    side.at_master()
    side.core.master_lost()
    side.core.master_connected()
    assert popped(side.core.to_master)[0].body == b'{"whole":1}'


def test_what_was_unregistered_is_not_registered_again() -> None:
    side = Side()
    side.core.master_connected()
    side.ask(Code.HEART_BEAT, 1, body=b"two groups")
    side.ask(Code.UNREGISTER_CLIENT, 2)
    side.answer(1), side.answer(2)
    side.at_client(), side.at_master()
    side.core.master_lost()
    side.core.master_connected()
    assert side.at_master() == [1, 2]
    side.answer(1), side.answer(2)
    assert side.at_client() == []
    side.ask(Code.HEART_BEAT, 3, body=b"one group")
    side.answer(3)
    side.at_master()
    side.core.master_lost()
    side.core.master_connected()
    assert side.at_master() == [3]


def test_an_unanswered_request_is_repeated_at_the_new_master_or_refused() -> None:
    side = Side()
    side.core.master_connected()
    for opaque, code in enumerate((PULL, CREATE, SEND)):
        side.ask(code, opaque)
    side.at_master()
    side.core.master_lost()
    assert side.at_client() == [(1, ResponseCode.SERVICE_NOT_AVAILABLE)]
    side.core.master_connected()
    assert side.at_master() == [0, 2]


def test_sends_are_not_repeated_if_the_operator_says_so() -> None:
    side = Side(resend_sends=False)
    side.core.master_connected()
    side.ask(SEND, 1)
    side.core.master_lost()
    assert side.at_client() == [(1, ResponseCode.SERVICE_NOT_AVAILABLE)]
    side.ask(SEND, 2)
    side.core.master_connected()
    assert side.at_master() == [2], "it was never sent before"


def test_no_administrative_change_is_repeated() -> None:
    changes = {
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.RESUME_CHECK_HALF_MESSAGE,
    }
    changes |= {Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.UPDATE_BROKER_CONFIG}
    assert not changes & (REPEATED | SENDS)


def test_answers_of_an_earlier_master_and_to_it_are_dropped() -> None:
    side = Side()
    side.core.master_connected()
    side.answer(7, Code.CHECK_TRANSACTION_STATE, flag=0)
    assert side.at_client() == [(7, Code.CHECK_TRANSACTION_STATE)]
    side.core.master_lost()
    side.core.master_connected()
    side.ask(0, 7, flag=FLAG_RESPONSE)
    assert side.at_master() == [], "the new master has not asked that"
    side.answer(9)
    assert side.at_client() == []


def test_a_request_of_the_master_is_answered_once() -> None:
    side = Side()
    side.core.master_connected()
    side.answer(7, Code.GET_CONSUMER_RUNNING_INFO, flag=0)
    side.answer(8, Code.NOTIFY_CONSUMER_IDS_CHANGED, flag=FLAG_ONEWAY)
    for _ in range(2):
        side.ask(0, 7, flag=FLAG_RESPONSE)
        side.ask(0, 8, flag=FLAG_RESPONSE)
    assert side.at_master() == [7]


def test_a_refused_request_waits_for_another_master() -> None:
    side = Side()
    side.core.master_connected()
    side.ask(SEND, 1, now=0)
    side.at_master()
    side.answer(1, ResponseCode.SERVICE_NOT_AVAILABLE, now=10)
    assert side.at_client() == []
    side.core.send_waiting()
    assert side.at_master() == [1], "the same master may serve again"
    side.answer(1, ResponseCode.SERVICE_NOT_AVAILABLE, now=200)
    side.core.master_lost()
    side.core.master_connected()
    assert side.at_master() == [1]
    side.answer(1)
    assert side.at_client() == [(1, 0)]


def test_a_master_that_refuses_for_long_is_believed() -> None:
    side = Side()
    side.core.master_connected()
    side.ask(SEND, 1, now=0)
    side.answer(1, ResponseCode.SERVICE_NOT_AVAILABLE, now=10)
    side.core.expire(9 + REFUSED_MS)
    assert side.at_client() == []
    side.core.expire(10 + REFUSED_MS)
    assert side.at_client() == [(1, ResponseCode.SERVICE_NOT_AVAILABLE)]
    assert side.held.total == 0


def test_a_request_waits_for_a_limited_time() -> None:
    side = Side()
    side.ask(SEND, 1, now=0)
    side.ask(SEND, 2, now=1, flag=FLAG_ONEWAY)
    side.ask(PULL, 3, now=2)
    side.core.expire(HOLD_MS - 1)
    assert side.at_client() == []
    side.core.expire(HOLD_MS)
    assert side.at_client() == [(1, ResponseCode.SERVICE_NOT_AVAILABLE)]
    side.core.expire(HOLD_MS + 2)
    assert side.at_client() == [(3, ResponseCode.SERVICE_NOT_AVAILABLE)]
    assert side.held.total == 0
    side.core.master_connected()
    assert side.at_master() == []


@pytest.mark.parametrize("connected", [True, False])
def test_memory_is_limited(connected: bool) -> None:
    side = Side(limit=1_000)
    if connected:
        side.core.master_connected()
    side.ask(SEND, 1, body=b"x" * 700)
    side.ask(SEND, 2, body=b"x" * 700)
    side.ask(SEND, 3, body=b"x" * 700, flag=FLAG_ONEWAY)
    assert side.at_client() == [(2, ResponseCode.SYSTEM_BUSY)]
    assert side.at_master() == ([1] if connected else [])
    assert side.held.total < 1_000
    side.core.close()
    assert side.held.total == 0


def test_one_client_may_not_use_all_memory() -> None:
    side, body = Side(limit=1 << 40), b"x" * (limits.FRAME_BYTES_MAX // 2)
    for opaque in range(CLIENT_BYTES_MAX // len(body) + 1):
        side.ask(SEND, opaque, body=body)
    assert side.at_client() == [(7, ResponseCode.SYSTEM_BUSY), (8, ResponseCode.SYSTEM_BUSY)]
    assert side.held.total <= CLIENT_BYTES_MAX


@dataclass
class History:
    """A random history of one client; requests are answered exactly once, in the end."""

    side: Side = field(default_factory=Side)
    open: set[int] = field(default_factory=set)
    master: list[int] = field(default_factory=list)
    """Opaques at the present master that it has not answered, in order."""
    opaque: int = 0

    def step(self, what: str, choice: int) -> None:
        core = self.side.core
        if what == "ask":
            self.opaque += 1
            self.open.add(self.opaque)
            self.side.ask((PULL, SEND, CREATE)[choice % 3], self.opaque)
        elif what == "answer" and self.master:
            code = (0, 0, ResponseCode.SERVICE_NOT_AVAILABLE)[choice % 3]
            self.side.answer(self.master.pop(choice % len(self.master)), code)
        elif what == "lose":
            core.master_lost()
            self.master.clear()
        elif what == "connect" and not core.connected:
            core.master_connected()
        elif what == "again":
            core.send_waiting()
        got = self.side.at_master()
        assert core.connected or not got
        assert not set(got) & set(self.master), "sent twice to one master"
        self.master += got
        for opaque, _ in self.side.at_client():
            self.open.remove(opaque)  # `KeyError` for a second answer


kinds = st.sampled_from(["ask", "ask", "answer", "answer", "lose", "connect", "again"])


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(kinds, st.integers(0, 5)), max_size=60))
def test_each_request_is_answered_exactly_once(steps: list[tuple[str, int]]) -> None:
    history = History()
    for what, choice in steps:
        history.step(what, choice)
    history.step("connect", 0)
    history.step("again", 0)
    while history.master:
        history.step("answer", 0)
    assert not history.open
    assert history.side.held.total == 0
    assert history.side.core.waiting == 0
