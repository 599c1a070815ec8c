"""One outcome for each draft, once, and not before it is as safe as the flush policy wants."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from epochmq.broker.internal_writes.internal_writer import (
    ANSWERED_IN_TIME,
    FOR_CLIENTS,
    PATIENT,
    InternalWriter,
    Origin,
    OwnLogRoute,
    WriteOutcome,
)
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.native_send import SendRun
from epochmq.store.remake import Remade

Result = Appended | PutStatus


class FakeStore:
    def __init__(self, *results: Result) -> None:
        self.results = list(results)
        self.appended: list[Draft] = []
        self.waiting: list[tuple[int, Callable[[bool], None]]] = []

        self.run_end = 0
        """Where a run that is appended ends; 0: the log does not take it as one."""

    def append_run(self, run: object, wall: int) -> int:
        return self.run_end

    def append(self, drafts: Sequence[Draft], wall: int) -> list[Result]:
        self.appended += drafts
        return [self.results.pop(0) for _ in drafts]

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        self.waiting.append((offset, callback))


class FakeRun:
    """What the native code has staged: the same messages, as records already."""

    count = 2

    def unpack(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(draft=draft) for draft in drafts(self.count)]


def drafts(count: int) -> list[Draft]:
    return [Draft("T", 0, b"%d" % n, b"") for n in range(count)]


def stored(offset: int) -> Appended:
    return Appended(offset, 10, 0, 0)


def test_outcomes_come_in_order_and_are_counted() -> None:
    store = FakeStore(
        stored(0), PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
    )  # fmt: skip
    internal_writer = InternalWriter(OwnLogRoute(store, sync_flush=False))
    said: list[Sequence[WriteOutcome]] = []
    internal_writer.put(drafts(4), Origin.RETRY, 5, said.append)
    assert said == [
        [WriteOutcome.STORED, WriteOutcome.LATER, WriteOutcome.ILLEGAL, WriteOutcome.ILLEGAL]
    ]
    assert [draft.body for draft in store.appended] == [b"0", b"1", b"2", b"3"]
    statistics = internal_writer.statistics()
    assert statistics["waiting"] == 0
    assert statistics["stored_retry"] == 1
    assert statistics["refused_retry"] == 3
    assert statistics["stored_delayed"] == 0


@pytest.mark.parametrize(
    ("ok", "outcome"), [(True, WriteOutcome.STORED), (False, WriteOutcome.LATER)]
)
def test_with_synchronous_flush_nothing_is_stored_before_it_is_synced(
    ok: bool, outcome: WriteOutcome
) -> None:
    store = FakeStore(stored(100), stored(110))
    internal_writer = InternalWriter(OwnLogRoute(store, sync_flush=True))
    said: list[Sequence[WriteOutcome]] = []
    internal_writer.put(drafts(2), Origin.POP, 5, said.append)
    assert said == []
    assert internal_writer.statistics()["waiting"] == 2
    ((end, release),) = store.waiting
    assert end == 120
    release(ok)
    assert said == [[outcome, outcome]]
    assert internal_writer.statistics()["waiting"] == 0


def test_with_nothing_stored_there_is_nothing_to_wait_for() -> None:
    store = FakeStore(PutStatus.SERVICE_NOT_AVAILABLE)
    said: list[Sequence[WriteOutcome]] = []
    InternalWriter(OwnLogRoute(store, sync_flush=True)).put(drafts(1), Origin.REPLY, 5, said.append)
    assert said == [[WriteOutcome.LATER]]
    assert store.waiting == []


def test_the_route_can_be_changed() -> None:
    """What an acting master will do: hand over to a peer and hear of it later."""
    later: list[Callable[[], None]] = []

    class Remote:
        def put(
            self,
            drafts: Sequence[Draft],
            origin: Origin,
            wall: int,
            done: Callable[[Sequence[WriteOutcome]], None],
        ) -> None:
            later.append(lambda: done([WriteOutcome.STORED] * len(drafts)))

    internal_writer = InternalWriter(OwnLogRoute(FakeStore(), sync_flush=False))
    internal_writer.route = Remote()
    said: list[Sequence[WriteOutcome]] = []
    internal_writer.put(drafts(2), Origin.DEAD_LETTER, 5, said.append)
    assert internal_writer.statistics()["waiting"] == 2
    later.pop()()
    assert said == [[WriteOutcome.STORED] * 2]
    assert internal_writer.statistics()["stored_dead_letter"] == 2


def test_a_write_without_the_right_to_write_is_kept_for_later() -> None:
    store = FakeStore(stored(0))
    internal_writer = InternalWriter(OwnLogRoute(store, sync_flush=False, writable=lambda: False))
    found: list[list[WriteOutcome]] = []
    internal_writer.put(drafts(2), Origin.DELAYED, 0, found.append)
    assert found == [[WriteOutcome.LATER] * 2]
    assert store.appended == []


@pytest.mark.parametrize("origin", sorted(PATIENT, key=str))
def test_what_was_written_and_is_not_kept_in_time_is_waited_for(origin: Origin) -> None:
    """To put it again would deliver it twice."""
    store = FakeStore(stored(100), PutStatus.MESSAGE_ILLEGAL)
    said: list[Sequence[WriteOutcome]] = []
    local = OwnLogRoute(store, sync_flush=True)
    InternalWriter(local).put(drafts(2), origin, 5, said.append)
    store.waiting.pop()[1](False)
    assert said == []
    local.pending_writes.tick(7)
    ((end, release),) = store.waiting
    assert end == 110
    release(True)
    assert said == [[WriteOutcome.STORED, WriteOutcome.ILLEGAL]]


@pytest.mark.parametrize("origin", Origin)
def test_everybody_waits_or_says_why_twice_does_no_harm(origin: Origin) -> None:
    assert (origin in PATIENT) != (origin in ANSWERED_IN_TIME)
    assert ANSWERED_IN_TIME.get(origin, "waits")


@pytest.mark.parametrize("origin", sorted(FOR_CLIENTS, key=str))
def test_of_what_clients_wait_for_only_so_much_is_under_way(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochmq.broker.internal_writes.internal_writer.PATIENT_REQUESTS_MAX", 2)
    store = FakeStore(*[stored(10 * n) for n in range(4)])
    said: list[Sequence[WriteOutcome]] = []
    internal_writer = InternalWriter(OwnLogRoute(store, sync_flush=True))
    for _ in range(3):
        internal_writer.put(drafts(1), origin, 5, said.append)
        store.waiting.pop()[1](False)
    assert said == [[WriteOutcome.LATER]]
    internal_writer.put(drafts(1), Origin.TIMER, 5, said.append)
    store.waiting.pop()[1](False)
    assert said == [[WriteOutcome.LATER]]


def test_when_the_role_ends_first_it_is_to_be_put_again() -> None:
    store = FakeStore(stored(100), stored(110))
    said: list[Sequence[WriteOutcome]] = []
    local = OwnLogRoute(store, sync_flush=True)
    InternalWriter(local).put(drafts(2), Origin.DELAYED, 5, said.append)
    store.waiting.pop()[1](False)
    local.pending_writes.role_changed()
    local.pending_writes.tick(7)
    assert said == [[WriteOutcome.LATER] * 2]
    assert store.waiting == []


@pytest.mark.parametrize("whole", [True, False])
def test_what_native_code_made_is_one_run_or_its_drafts(whole: bool) -> None:
    store = FakeStore(stored(100), stored(110))
    store.run_end = 120 if whole else 0
    said: list[Sequence[WriteOutcome]] = []
    remade = Remade(cast(SendRun, FakeRun()))
    InternalWriter(OwnLogRoute(store, sync_flush=True)).put(remade, Origin.DELAYED, 5, said.append)
    ((end, release),) = store.waiting
    assert end == 120
    release(True)
    assert said == [[WriteOutcome.STORED] * 2]
    assert [draft.body for draft in store.appended] == ([] if whole else [b"0", b"1"])
