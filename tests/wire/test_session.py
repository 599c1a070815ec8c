"""A session over a scripted transport."""

from collections.abc import Callable

import pytest

from epochmq.base.errors import UsageError
from epochmq.base.limits import HEADER_BYTES_MAX
from epochmq.base.ports import Buffer
from epochmq.wire.command import Command, Reply, decode
from epochmq.wire.frame import FrameReader
from epochmq.wire.session import Session


class FakeTransport:
    """Remembers what it was told; timers fire when the test says so."""

    def __init__(self) -> None:
        self.wakes = 0
        self.cuts: list[str] = []
        self.timers: dict[int, tuple[int, Callable[[], None]]] = {}

    def wake(self) -> None:
        self.wakes += 1

    def cut(self, reason: str) -> None:
        self.cuts.append(reason)

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        key = len(self.timers)
        self.timers[key] = (delay_ms, call)
        return lambda: self.timers.__setitem__(key, (delay_ms, lambda: None))

    def fire(self) -> None:
        for _, call in list(self.timers.values()):
            call()


def make() -> tuple[Session, FakeTransport]:
    transport = FakeTransport()
    return Session(1, transport, peer="10.0.0.2:4000"), transport


def sent(session: Session) -> list[Command]:
    data = b"".join(bytes(chunk) for chunk in session.pop_outbox())
    return [decode(f.header, f.binary, bytes(f.body)) for f in FrameReader().feed(data)]


def test_chunks_of_a_turn_wake_once() -> None:
    session, transport = make()
    session.send(b"ab", memoryview(b"c"))
    session.send(b"d")
    assert (transport.wakes, session.outbox_bytes) == (1, 4)
    chunks: list[Buffer] = session.pop_outbox()
    assert b"".join(chunks) == b"abcd"
    assert session.outbox_bytes == 0
    session.send(b"e")
    assert transport.wakes == 2


def test_what_is_held_leaves_with_the_last_release() -> None:
    session, transport = make()
    session.hold()
    session.hold()
    session.send(b"ab")
    assert session.pop_outbox() == []
    session.release()
    assert (session.pop_outbox(), transport.wakes) == ([], 1)
    session.release()
    assert (session.pop_outbox(), transport.wakes) == ([b"ab"], 2)
    session.hold()
    session.release()
    assert transport.wakes == 2


def test_nothing_is_kept_for_a_lost_connection_that_was_held() -> None:
    session, _ = make()
    session.hold()
    session.send(b"ab")
    session.lost()
    session.release()
    assert (session.outbox, session.outbox_bytes) == ([], 0)


def test_answers_carry_the_opaque_and_oneway_gets_none() -> None:
    session, _ = make()
    session.answer(Command(34, opaque=9), Reply(0, body=[b"x", b"y"]))
    session.answer(Command(34, opaque=10, flag=2), Reply())
    (answer,) = sent(session)
    assert (answer.opaque, answer.body, answer.is_response) == (9, b"xy", True)


@pytest.mark.parametrize("value", ["x" * 5_000_000, "\ud800"], ids=["too long", "no unicode"])
def test_an_answer_that_cannot_be_sent_is_an_error_answer(value: str) -> None:
    session, _ = make()
    session.answer(Command(34, opaque=9), Reply(header={"a": value}))
    (answer,) = sent(session)
    assert (answer.code, answer.opaque) == (1, 9)
    assert (answer.remark or "").startswith("unsendable answer")


def test_a_request_that_cannot_be_sent_leaves_nothing_behind() -> None:
    session, transport = make()
    got: list[Command | None] = []
    with pytest.raises(UsageError):
        session.request(Command(307, ext={"a": "x" * HEADER_BYTES_MAX}), 3000, got.append)
    session.lost()
    assert (got, transport.timers) == ([], {})


def test_a_request_gets_its_answer_once() -> None:
    session, transport = make()
    got: list[Command | None] = []
    session.request(Command(307), 3000, got.append)
    (asked,) = sent(session)
    assert not asked.is_response
    assert transport.timers[0][0] == 3000
    reply = Command(0, opaque=asked.opaque, flag=1)
    assert session.answered(reply)
    assert not session.answered(reply)
    transport.fire()
    assert got == [reply]


def test_a_request_runs_out_of_time() -> None:
    session, transport = make()
    got: list[Command | None] = []
    session.request(Command(307), 10, got.append)
    transport.fire()
    assert got == [None]
    assert not session.answered(Command(0, opaque=1, flag=1))


def test_opaques_differ() -> None:
    session, _ = make()
    session.oneway(Command(40))
    session.request(Command(307), 10, lambda answer: None)
    first, second = sent(session)
    assert first.is_oneway
    assert not second.is_oneway
    assert first.opaque != second.opaque


def test_close_asks_the_transport_and_lost_tells_everybody_once() -> None:
    session, transport = make()
    got: list[Command | None] = []
    seen: list[int] = []
    session.request(Command(307), 10, got.append)
    session.on_close.append(lambda closed: seen.append(closed.id))
    session.close("why")
    assert transport.cuts == ["why"]
    assert not session.closed
    session.lost()
    session.lost()
    assert (got, seen, session.closed) == ([None], [1], True)
    assert session.outbox == []


def test_a_closed_session_sends_nothing_and_fails_requests_at_once() -> None:
    session, transport = make()
    session.lost()
    got: list[Command | None] = []
    session.send(b"x")
    session.close("again")
    session.request(Command(307), 10, got.append)
    assert (session.outbox, transport.cuts, transport.timers, got) == ([], [], {}, [None])


def test_the_opaque_wraps_inside_int32() -> None:
    session, _ = make()
    session._next_opaque = 0x7FFFFFFF
    session.oneway(Command(40))
    assert sent(session)[0].opaque == 0


def test_a_lost_session_lets_go_of_its_transport() -> None:
    session, transport = make()
    session.lost()
    session.send(b"x")
    session.close("late")
    session.request(Command(307), 1000, lambda answer: None)
    assert (session.outbox, transport.wakes, transport.cuts, transport.timers) == ([], 0, [], {})
    gone = session._transport
    assert gone is not transport
    gone.wake()
    gone.cut("late")
    gone.after(1, gone.wake)()
