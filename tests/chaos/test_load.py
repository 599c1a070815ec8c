"""The book that clients keep, and what a client makes of each answer."""

import asyncio
from typing import Any

import pytest
from chaos import load
from chaos.load import Book, Client
from sim.kernel.oracle import Result

from epochmq.base.errors import EpochError, NotReachable, Refused
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.message_id import offset_id
from epochmq.model.topic import MessageQueue

QUEUE = MessageQueue("Chaos", "broker-a", 2)
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


class Answer:
    """As much of a send's result as a client looks at."""

    def __init__(self, number: int, status: SendStatus = SendStatus.SEND_OK) -> None:
        self.status = status
        self.queue_offset = number
        self.offset_msg_id = offset_id(HOST, number * 100)


class Scripted:
    """A producer that gives these outcomes, one a send, and then stops its client."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.client: Client | None = None

    async def __aenter__(self) -> "Scripted":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def queues(self, _topic: str) -> list[MessageQueue]:
        if isinstance(self.outcomes[0], Refused):
            raise self._next()
        return [QUEUE]

    async def send(self, *_: object, **__: object) -> Any:
        outcome = self._next()
        if isinstance(outcome, EpochError):
            raise outcome
        return outcome

    def _next(self) -> Any:
        outcome = self.outcomes.pop(0)
        if not self.outcomes:
            assert self.client is not None
            self.client.stop()
        return outcome


async def ride(monkeypatch: pytest.MonkeyPatch, *outcomes: object) -> Book:
    """One client's book after these outcomes."""
    producer = Scripted(*outcomes)
    monkeypatch.setattr(load, "Producer", lambda *_, **__: producer)
    monkeypatch.setattr(load, "AGAIN_S", 0)
    book = Book()
    producer.client = Client("127.0.0.1:1", "client-0", "Chaos", book, 1)
    await producer.client.run(1)
    return book


async def test_an_acknowledgement_is_kept_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    book = await ride(monkeypatch, Answer(7))
    (send,) = book.oracle.acked
    assert (send.queue, send.place, send.client) == (("Chaos", 2), (7, 700), "client-0")
    assert len(book.acks_us) == 1
    assert not book.errors


async def test_what_fails_or_is_stored_in_part_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    book = await ride(
        monkeypatch,
        NotReachable("closed"),
        Answer(1, SendStatus.FLUSH_SLAVE_TIMEOUT),
        Refused(14, "no rights"),
        Answer(2),
    )
    assert len(book.oracle.acked) == 1
    unknown = [s for s in book.oracle.sends.values() if s.result is Result.UNKNOWN]
    assert len(unknown) == 2, "no route, no try"
    assert sum(book.errors.values()) == 3
    assert book.errors["stored as FLUSH_SLAVE_TIMEOUT only"] == 1


async def test_waiting_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book()
    waiting = asyncio.create_task(book.wait_acks(2))
    for at in (1, 2):
        await asyncio.sleep(0)
        assert not waiting.done()
        book.acks_us.append(at)
        book.acked.set()
    await asyncio.wait_for(waiting, 5)


def test_the_longest_pause_counts_the_edges() -> None:
    book = Book(acks_us=[0, 1_000, 9_000, 10_000])
    assert book.longest_pause_ms(500, 9_500) == 8.0
    assert book.longest_pause_ms(9_000, 30_000) == 20.0
    assert book.longest_pause_ms(11_000, 13_000) == 2.0
    assert book.longest_pause_ms(-5_000, 500) == 5.0


def test_numbers_and_errors() -> None:
    book = Book()
    assert [book.take_number() for _ in range(3)] == [1, 2, 3]
    for end in ("a", "b"):
        book.note_error(NotReachable("x" * 60 + end))
    assert book.errors == {"x" * 60: 2}
