"""From frames to handlers: which error a request gets."""

import logging
from collections.abc import Callable

import pytest

from epochmq.base.errors import HeaderError, OurBug, PeerError, Refused, UsageError
from epochmq.wire.command import HELD, Command, Held, Reply, decode, encode_frame
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.frame import FrameReader, RawFrame
from epochmq.wire.session import Session


class Transport:
    """Cuts at once."""

    session: Session

    def wake(self) -> None:
        pass

    def cut(self, reason: str) -> None:
        self.reason = reason
        self.session.lost()

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


def make() -> tuple[Session, Transport]:
    transport = Transport()
    session = Session(1, transport, peer="p:1")
    transport.session = session
    return session, transport


def raising(error: Exception) -> Handler:
    def handler(command: Command, session: Session, now: int) -> Reply | Held:
        raise error

    return handler


def frames(*commands: Command) -> list[RawFrame]:
    return FrameReader().feed(b"".join(map(encode_frame, commands)))


def answers(session: Session) -> list[Command]:
    data = b"".join(bytes(chunk) for chunk in session.pop_outbox())
    return [decode(f.header, f.binary, bytes(f.body)) for f in FrameReader().feed(data)]


def ask(handler: Handler | None, request: Command | None = None) -> list[Command]:
    session, _ = make()
    dispatcher = Dispatcher({} if handler is None else {38: handler})
    dispatcher.receive(session, frames(request or Command(38, opaque=5)), now=1)
    return answers(session)


def test_a_handler_sees_command_session_and_now() -> None:
    seen: list[object] = []

    def handler(command: Command, session: Session, now: int) -> Reply:
        seen.extend((command.code, bytes(command.body), session.peer, now))
        return Reply(0, "fine", {"a": "b"}, b"body")

    (answer,) = ask(handler, Command(38, opaque=5, body=b"in"))
    assert seen == [38, b"in", "p:1", 1]
    assert (answer.code, answer.remark, answer.ext) == (0, "fine", {"a": "b"})
    assert (answer.body, answer.opaque, answer.is_response) == (b"body", 5, True)


@pytest.mark.parametrize(
    ("handler", "code", "remark"),
    [
        (None, 3, " request type 38 not supported"),
        (raising(Refused(17, "no such topic")), 17, "no such topic"),
        (raising(Refused(2, "[REJECTREQUEST]busy")), 2, "[REJECTREQUEST]busy"),
        (raising(HeaderError("the header field topic is missing")), 1, None),
        (raising(UsageError("too large to be passed on")), 1, "too large to be passed on"),
        (raising(ZeroDivisionError("division")), 1, "ZeroDivisionError: division"),
    ],
)
@pytest.mark.parametrize("binary", [False, True])
def test_errors_become_answers(
    handler: Handler | None, code: int, remark: str | None, binary: bool
) -> None:
    (answer,) = ask(handler, Command(38, opaque=5, binary=binary))
    assert (answer.code, answer.opaque, answer.binary) == (code, 5, binary)
    assert answer.remark == (remark or "the header field topic is missing")


@pytest.mark.parametrize(
    "handler", [None, raising(Refused(17, "x")), raising(HeaderError("x")), raising(KeyError("x"))]
)
def test_oneway_is_never_answered(handler: Handler | None) -> None:
    assert ask(handler, Command(38, flag=2)) == []


def test_held_is_answered_later() -> None:
    kept: list[tuple[Session, Command]] = []

    def handler(command: Command, session: Session, now: int) -> Held:
        kept.append((session, command))
        return HELD

    session, _ = make()
    Dispatcher({38: handler}).receive(session, frames(Command(38, opaque=5)), now=1)
    assert answers(session) == []
    session.answer(kept[0][1], Reply(20))
    assert [(a.opaque, a.code) for a in answers(session)] == [(5, 20)]


def test_our_bug_stops_the_node() -> None:
    session, _ = make()
    with pytest.raises(OurBug):
        Dispatcher({38: raising(OurBug("x"))}).receive(session, frames(Command(38)), now=1)


def test_garbage_cuts_the_connection_and_ends_the_run_of_frames() -> None:
    session, transport = make()
    dispatcher = Dispatcher({38: lambda command, session, now: Reply()})
    good = frames(Command(38, opaque=1), Command(38, opaque=3))
    bad = RawFrame(b"{", False, memoryview(b""))
    dispatcher.receive(session, [good[0], bad, good[1]], now=1)
    assert session.closed
    assert "malformed" in transport.reason


def test_a_peer_error_of_a_handler_cuts_too() -> None:
    session, transport = make()
    Dispatcher({38: raising(PeerError("rude"))}).receive(session, frames(Command(38)), now=1)
    assert transport.reason == "rude"


def test_a_traceback_is_logged_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        (answer,) = ask(raising(KeyError("k")))
    assert "Traceback" in caplog.text
    assert answer.remark == "KeyError: 'k'"


def test_responses_go_to_their_caller_and_others_are_dropped() -> None:
    session, _ = make()
    got: list[Command | None] = []
    session.request(Command(307), 1000, got.append)
    (asked,) = answers(session)
    response = Command(0, opaque=asked.opaque, flag=1, body=b"x")
    Dispatcher().receive(session, frames(response, response), now=1)
    assert [answer and answer.body for answer in got] == [b"x"]
    assert answers(session) == []


def test_the_rest_of_a_frame_sink_does_nothing() -> None:
    session, _ = make()
    dispatcher = Dispatcher()
    dispatcher.opened(session)
    dispatcher.end_of_turn(1)
    dispatcher.closed(session)
    assert dispatcher.table == {}
