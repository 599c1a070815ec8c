"""A log that is cut beside the loop: what the loop may do meanwhile, and what it may not."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from tests.attack.test_loop_syncs import Syncs
from tests.store.replicas import WALL, shown
from tests.store.world import draft

from epochmq.base.errors import DiskFull, EpochError, OurBug
from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.linked_node import Then
from epochmq.store.commit_log import CommitLog
from epochmq.store.draft import PutStatus
from epochmq.store.truncation import Truncation

from .brokers import LiveBroker, until
from .pair import Broker, Cable, replicate

Call = Callable[[], None]


class Beside:
    """The blocking thread of one broker: a step runs when the test says so."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.steps: list[tuple[Call, Then]] = []
        self.at_work = False
        self.on_loop: list[str] = []
        """Operations of the disk that wait for it, outside of a step."""
        broker.run_blocking = lambda call, then: self.steps.append((call, then))
        broker.disk.on_operation = self._noted

    def _noted(self, _number: int, what: str) -> None:
        waits = what.startswith(("sync", "remove", "write cut", "write commitlog"))
        if waits and not self.at_work:
            self.on_loop.append(what)

    def work(self) -> None:
        """Run the next step; its end is not told yet."""
        call, then = self.steps.pop(0)
        error: Exception | None = None
        self.at_work = True
        try:
            call()
        except EpochError as caught:
            error = caught
        self.at_work = False
        self.steps.insert(0, (lambda: None, lambda _none: then(error)))

    def tell(self) -> None:
        """What worked tells that it is done."""
        self.steps.pop(0)[1](None)

    def run(self, count: int = 100) -> None:
        while self.steps and count:
            self.work()
            self.tell()
            count -= 1


def parted(unclean: bool = False) -> tuple[Broker, Broker, Beside, Cable, int]:
    """Broker 2 goes on from where broker 1 wrote more, and broker 1 has begun to follow it.

    Where they part comes last. With `unclean` what broker 1 has more is confirmed.
    """
    old, new = Broker(1), Broker(2)
    old.lead(1, 1, 2)
    old.write(20)
    replicate(old, new, 1)
    point = new.end
    old.write(20)
    if unclean:
        old.store.limit_confirm(old.end)
    old.store.sync()
    new.lead(2, 2)
    new.write(5)
    beside = Beside(old)
    cable = replicate(new, old, 2, unclean_epoch=2 if unclean else 0)
    assert old.node.reshaping
    return old, new, beside, cable, point


def refused(_log: CommitLog, _paths: list[str]) -> None:
    raise DiskFull("no space")


def go_on(new: Broker, old: Broker, beside: Beside, cable: Cable) -> None:
    """Until nothing moves: the follower has what the master has."""
    for _ in range(3):
        cable.run()
        beside.run()
    assert (old.bytes(), old.epochs) == (new.bytes(), new.epochs)


def test_the_loop_waits_for_no_device() -> None:
    old, new, beside, cable, point = parted()
    assert old.end > point
    beside.run()
    assert beside.on_loop == []
    assert (old.end, old.node.reshaping, old.store.held) == (point, False, False)
    go_on(new, old, beside, cable)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("unclean", [False, True])
def test_meanwhile_nothing_else_touches_the_log(steps: int, unclean: bool) -> None:
    """After each half step: its work is done, or its end is told as well."""
    old, _new, beside, _cable, point = parted(unclean)
    store, whole = old.store, old.bytes()
    before = shown(store)
    store.pointers.synced = point  # a sync and a chore are due
    store.chores.add("a chore", [lambda: None], lambda _error: None)
    for _ in range(steps):
        beside.work()
        files = old.disk.list("commitlog")
        assert not old.node.reading
        assert store.append([draft(1, Random(1))], WALL) == [PutStatus.SERVICE_NOT_AVAILABLE]
        assert (store.flush_due(1 << 40), store.chores.next_step()) == (False, None)
        for now in range(10_000, 200_000, 50_000):
            store.tick(now, WALL + now)
        assert old.disk.list("commitlog") == files
        for call in (store.seal_tail, lambda: old.lead(3), lambda: old.follow(3)):
            with pytest.raises(OurBug):
                call()
        if not beside.steps or not old.node.reshaping:
            break
        beside.tell()
        store.limit_confirm(len(whole))  # as bounds move, nothing of it shows
    if steps:  # the copy is there: from now on what goes is not shown
        assert store.pointers.readable <= point
        assert bytes(store.slice(0, store.pointers.confirmed)) in whole
    else:
        assert shown(store) == before
    for topic, queue_id in before:
        found = store.read_queue(topic, queue_id, 0, 100, 1 << 20)
        for record in found.chunks:
            assert bytes(record) in whole[: point if steps else None]
    beside.run()
    assert (old.end, store.fenced, beside.on_loop) == (point, None, [])
    assert store.verify().problems == []


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_link_that_breaks_stops_no_cut(steps: int, told: bool) -> None:
    old, new, beside, cable, point = parted()
    for _ in range(steps):
        beside.work()
        beside.tell()
    if told:
        beside.work()
    cable.cut()
    again = Cable(new, old)
    assert not old.node.reading  # its bytes wait until the cut is over
    beside.run()
    assert (old.end, old.node.reading) == (point, True)
    go_on(new, old, beside, again)
    assert old.node.established
    assert old.store.statistics()["truncations"] == 1


@pytest.mark.parametrize("lead", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_role_that_ends_stops_no_cut(steps: int, lead: bool) -> None:
    """And the next role begins when the log is whole again."""
    old, _new, beside, cable, point = parted()
    beside.run(steps)
    if beside.steps:
        beside.work()
    cable.cut()
    old.node.leave(old.now)
    roles: list[str] = []

    def begin() -> None:
        roles.append("begun")
        if lead:
            old.lead(3, 1)
        else:
            old.follow(3)

    old.node.when_shaped(begin)
    assert roles == ([] if old.node.reshaping else ["begun"])
    beside.run()
    assert roles == ["begun"]
    assert (old.end, old.store.fenced) == (point, None)
    assert [entry for entry in old.epochs if entry[0] != 3] == [(1, 0)]
    if lead:
        old.write(3)
        assert old.store.verify().problems == []


def test_a_copy_that_finds_no_space_changes_nothing() -> None:
    old, _new, beside, _cable, _point = parted(unclean=True)
    before, visible, confirmed = old.bytes(), shown(old.store), old.confirmed
    call, then = beside.steps.pop()
    then(DiskFull("no space"))
    del call
    assert (old.bytes(), shown(old.store), old.confirmed) == (before, visible, confirmed)
    assert old.node.suspended
    assert not old.node.reshaping
    assert not old.store.held


def test_a_checkpoint_that_cannot_be_synced_shows_everything_again() -> None:
    """Between the copy and the first byte that goes: nothing is cut, and the store is fenced only
    for a failure that is final."""
    old, _new, beside, _cable, _point = parted(unclean=True)
    before, visible, confirmed = old.bytes(), shown(old.store), old.confirmed
    beside.run(1)
    assert old.confirmed < confirmed
    _, then = beside.steps.pop()
    then(DiskFull("no space"))
    assert (old.bytes(), shown(old.store), old.confirmed) == (before, visible, confirmed)
    assert old.store.verify().problems == []


@pytest.mark.parametrize("full", [False, True])
def test_a_cut_that_stops_half_way_fences_and_the_next_start_ends_it(
    full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even by a full disk: the log's files are no longer what the loop believes."""
    old, new, beside, cable, point = parted()
    beside.run(1)
    if full:
        monkeypatch.setattr(CommitLog, "delete", refused)
    else:
        old.disk.sync_fails = lambda path: path.startswith("commitlog")
    beside.run()
    monkeypatch.undo()
    assert old.store.fenced
    old.disk.sync_fails = lambda _path: False
    cable.cut()
    old.kill()
    assert old.end == point
    assert old.store.verify().problems == []
    replicate(new, old, 2)
    assert old.bytes() == new.bytes()


def test_a_sync_that_was_on_its_way_claims_nothing_of_what_is_cut() -> None:
    old, new, beside, cable, point = parted()
    store = old.store
    store.pointers.synced = point
    offset, call = store.sync_point()
    beside.run(1)
    beside.work()
    call()
    store.synced_to(offset)
    assert store.pointers.synced <= point
    assert store.pointers.readable <= point
    beside.run()
    assert store.pointers.synced == point
    go_on(new, old, beside, cable)
    assert store.pointers.synced == point  # what came since is not on the device


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("worked", [False, True])
def test_a_process_that_ends_between_steps(steps: int, close: bool, worked: bool) -> None:
    """INV-13, INV-15, INV-16: whole or cut, and a close in between claims no clean stop."""
    old, new, beside, cable, point = parted()
    whole = old.bytes()
    beside.run(steps)
    if worked and beside.steps:
        beside.work()
    if close:
        old.store.close(WALL)
    held = old.store.held
    cable.cut()
    old.open(old.disk.crash("x") if worked else old.disk.kill())
    assert old.store.recovered.clean is (close and not held)
    assert old.end in (point, len(whole))
    assert old.bytes() == whole[: old.end]
    assert old.store.verify().problems == []
    replicate(new, old, 2)
    assert (old.bytes(), old.epochs) == (new.bytes(), new.epochs)


def test_a_torn_tail_is_cut_beside_the_loop_too() -> None:
    master, follower = Broker(1), Broker(2)
    master.lead(1, 1, 2)
    master.write(5)
    replicate(master, follower, 1, upto=master.end - 10)
    whole = follower.store.whole_end
    assert whole < follower.end
    beside = Beside(follower)
    follower.node.shed_tail()
    beside.run()
    assert follower.end == whole
    assert beside.on_loop == []
    follower.lead(2, 2)
    assert follower.end == whole


def test_an_empty_log_begins_elsewhere_beside_the_loop() -> None:
    follower = Broker(2)
    beside = Beside(follower)
    told: list[object] = []
    follower.node._reshape(follower.store.resetting(3 * follower.store.file_bytes), told.append)
    assert told == []
    beside.run()
    assert (told, beside.on_loop) == ([None], [])
    assert follower.end == 3 * follower.store.file_bytes
    follower.store.append_raw(follower.end, b"\0\0")
    assert [what for what in beside.on_loop if not what.startswith("write commitlog")] == []


# Whole services ---------------------------------------------------------------------------------


async def diverged(tmp_path: Path) -> tuple[LiveBroker, LiveBroker, int]:
    """Broker 1 wrote more than broker 2, which is the new master."""
    old, new = await LiveBroker(tmp_path, 1).start(), await LiveBroker(tmp_path, 2).start()
    await old.lead(1)
    await new.follow(1, old)
    await until(lambda: old.set_epoch == 2)
    old.write(50)
    assert await old.acked() is AckStatus.ACKED
    await new.lead(2)
    point = new.end
    for _ in range(4):
        old.write(100)
    new.write(50)
    return old, new, point


async def test_a_hanging_disk_does_not_hold_the_loop(tmp_path: Path) -> None:
    """Every sync of the cut hangs until the loop has gone on for a while."""
    old, new, point = await diverged(tmp_path)
    syncs, node = Syncs(), old.replication.node
    with syncs.watched(), pytest.MonkeyPatch.context() as patch:
        seen, let_go = os.fdatasync, threading.Event()

        def hanging(fd: int) -> None:
            assert let_go.wait(20)
            let_go.clear()
            seen(fd)

        patch.setattr(os, "fdatasync", hanging)
        await old.follow(2, new)
        await until(lambda: node.reshaping)
        turns = 0
        while node.reshaping:
            for _ in range(10):
                await asyncio.sleep(0)
            turns += 10
            let_go.set()
        assert turns > 20
        let_go.wait = lambda _timeout=None: True  # type: ignore[method-assign]
        await until(lambda: old.end == new.end)
    assert old.bytes() == new.bytes()
    assert len(old.bytes()) > point
    assert syncs.saved("_describe_and_save")
    assert not syncs.on_loop, syncs.on_loop[0]
    await old.stop()
    await new.stop()


@pytest.mark.parametrize("next_role", ["master", "follower", "stop"])
async def test_the_next_role_waits_for_the_cut(tmp_path: Path, next_role: str) -> None:
    old, new, point = await diverged(tmp_path)
    syncs = Syncs()
    with syncs.watched():
        syncs.delay_s = 0.1
        await old.follow(2, new)
        await until(lambda: old.replication.node.reshaping)
        if next_role == "master":
            await old.lead(3)
            assert old.end == point
        elif next_role == "follower":
            await old.follow(3, new)
            assert old.end == point
        else:
            await old.stop()
        syncs.delay_s = 0.0
    if next_role == "stop":
        again = LiveBroker(tmp_path, 1)
        assert (again.store.recovered.clean, again.end) == (True, point)
        old = await again.start()
    await old.stop()
    await new.stop()


async def test_a_bug_in_a_step_takes_the_store_out_of_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the follower would wait for ever, and nobody would know."""
    old, new, _point = await diverged(tmp_path)

    def broken() -> Iterator[Callable[[], None]]:
        def step() -> None:
            raise RuntimeError("a bug")

        yield step

    monkeypatch.setattr(Truncation, "steps", lambda *_args: broken())
    await old.follow(2, new)
    await until(lambda: old.store.fenced)
    assert "a bug" in old.troubles[-1]
    await old.stop()
    await new.stop()
