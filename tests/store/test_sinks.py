"""The memory for repeats: alone, and on a replica that is cut, killed and made master."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from sim.kernel.disk import SimDisk
from tests.store.replicas import WALL, opened, ship
from tests.store.test_replica_machine import Known, ReplicaMachine
from tests.store.world import SMALL, TOPICS, draft, everything
from tests.tiers import examples

from epochmq.base import limits
from epochmq.model import properties as props
from epochmq.model.record import decode
from epochmq.model.sink_mark import SinkKey, SinkMark, mark_of
from epochmq.store.draft import UNIT, Appended, Draft
from epochmq.store.repair import Repair
from epochmq.store.sink_runs import MessagePosition, SinkRun
from epochmq.store.sinks import FILE, SETTLED, SinkMemory, load_snapshot
from epochmq.store.store import Store

KEY = SinkKey("s", 0, "T")


def mark(seq: int, batch: int = 0, key: SinkKey = KEY) -> SinkMark:
    return SinkMark(key, batch, seq)


def noted(*seqs: int, size: int = 100) -> SinkMemory:
    """Messages of batch 0, one after the other from log offset 0."""
    memory = SinkMemory()
    for n, seq in enumerate(seqs):
        memory.note(mark(seq), MessagePosition(n * size, size, 1, n))
    return memory


def test_what_is_noted_is_found_with_its_place() -> None:
    memory = noted(4, 2)
    assert memory.find(mark(2)) == MessagePosition(100, 100, 1, 1)
    assert memory.find(mark(3)) is None
    assert memory.find(mark(4, key=SinkKey("s", 1, "T"))) is None
    assert memory.find(mark(4, key=SinkKey("s", 0, "U"))) is None


def test_only_what_is_settled_outlives_its_place() -> None:
    memory = noted(4, 2, 9)
    memory.forget_confirmed(199)
    assert memory.covered == 100
    assert memory.find(mark(4)) is SETTLED
    assert memory.find(mark(2)) == MessagePosition(100, 100, 1, 1)
    memory.forget_confirmed(1000)
    assert memory.covered == 1000
    assert {memory.find(mark(seq)) for seq in (2, 4, 9)} == {SETTLED}
    assert memory.find(mark(3)) is None  # a gap stays open: numbers come in any order


def test_older_batches_are_done_once_a_newer_one_is_settled() -> None:
    memory = noted(1)
    memory.note(mark(7, batch=5), MessagePosition(500, 100, 0, 0))
    assert memory.find(mark(2)) is None
    memory.forget_confirmed(1000)
    assert memory.find(mark(2)) is SETTLED
    assert memory.find(mark(7, batch=5)) is SETTLED
    assert memory.find(mark(1, batch=5)) is None
    memory.note(mark(3, batch=4), MessagePosition(1100, 100, 0, 0))  # a late one takes nothing away
    memory.forget_confirmed(2000)
    assert memory.find(mark(7, batch=5)) is SETTLED


def test_a_cut_takes_what_was_behind_it() -> None:
    memory = noted(0, 1, 2)
    assert not memory.cut(200)
    assert memory.find(mark(2)) is None
    memory.note(mark(2), MessagePosition(200, 50, 3, 0))
    assert memory.find(mark(2)) == MessagePosition(200, 50, 3, 0)


def test_a_copy_does_not_hide_the_first_one() -> None:
    memory = noted(0)
    memory.note(mark(0), MessagePosition(100, 100, 2, 0))  # the same, delivered after its delay
    assert memory.find(mark(0)) == MessagePosition(0, 100, 1, 0)
    memory.cut(100)
    assert memory.find(mark(0)) == MessagePosition(0, 100, 1, 0)
    memory.cut(0)
    assert memory.find(mark(0)) is None


def test_a_cut_of_what_was_settled_forgets_all() -> None:
    memory = noted(0, 1)
    memory.forget_confirmed(150)
    assert memory.cut(50)
    assert memory.find(mark(0)) is None
    assert (memory.covered, memory.dirty) == (0, True)
    memory.note(mark(5), MessagePosition(50, 10, 0, 0))
    assert memory.find(mark(5)) is not None


def test_records_read_again_change_nothing() -> None:
    memory = noted(0, 1)
    memory.forget_confirmed(100)
    memory.note(mark(8), MessagePosition(0, 100, 1, 0))
    memory.note(mark(9), MessagePosition(100, 100, 1, 1))
    assert memory.find(mark(8)) is memory.find(mark(9)) is None


def test_a_deleted_topic_is_forgotten() -> None:
    memory = noted(0)
    memory.forget_confirmed(100)
    memory.note(mark(1), MessagePosition(100, 100, 1, 1))
    memory.note(mark(1, key=SinkKey("s", 0, "U")), MessagePosition(200, 100, 1, 1))
    memory.forget_topic("T")
    assert memory.find(mark(0)) is memory.find(mark(1)) is None
    assert memory.find(mark(1, key=SinkKey("s", 0, "U"))) is not None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SINK_WEIGHT_MAX", 10)
    monkeypatch.setattr(limits, "SINK_RECENT_MAX", 7)
    memory = SinkMemory()
    for n in range(20):
        memory.note(mark(1, key=SinkKey("s", n % 8, "T")), MessagePosition(n * 100, 100, 0, n))
        memory.forget_confirmed(n * 50)
        figures = memory.statistics()
        assert figures["sink_weight"] <= 10
        assert figures["sink_recent"] <= 7
    memory.forget_confirmed(5000)
    assert memory.find(mark(1, key=SinkKey("s", 3, "T"))) is SETTLED  # used last
    assert memory.find(mark(1, key=SinkKey("s", 4, "T"))) is None


def run(seq: int, count: int, offset: int, batch: int = 0, key: SinkKey = KEY) -> SinkRun:
    """Messages of 100 bytes each."""
    units = b"".join(UNIT.pack(offset + 100 * n, 100, 0) for n in range(count))
    return SinkRun(mark(seq, batch, key), count, 1, offset // 100, units)


class Both:
    """A memory that is told of runs, and its reference, which is told of each message."""

    def __init__(self) -> None:
        self.runs, self.ones = SinkMemory(), SinkMemory()
        self.end = 0

    def send(self, seq: int, count: int, batch: int, key: SinkKey) -> bool:
        """As a master takes a batch; whether it was new as a whole."""
        marks = [mark(seq + n, batch, key) for n in range(count)]
        new = all(self.ones.find(each) is None for each in marks)
        assert self.runs.is_new(marks[0], count) == new
        if new:
            self.runs.note_run(run(seq, count, self.end, batch, key))
        for n, each in enumerate(marks):
            place = MessagePosition(self.end + 100 * n, 100, 1, self.end // 100 + n)
            if new or self.ones.find(each) is None:
                self.ones.note(each, place)
                if not new:
                    self.runs.note(each, place)
        self.end += 100 * count
        return new

    def check(self, keys: list[SinkKey], most: int = 40) -> None:
        for key in keys:
            for batch in range(3):
                for seq in range(most):
                    one = mark(seq, batch, key)
                    assert self.runs.find(one) == self.ones.find(one)
        assert self.runs.statistics() == self.ones.statistics()
        assert (self.runs.covered, self.runs.dirty) == (self.ones.covered, self.ones.dirty)


@pytest.mark.parametrize("seed", range(60))
def test_runs_are_their_messages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is settled, cut, forgotten or deleted, also in the middle of a run."""
    rng = Random(seed)
    keys = [SinkKey("s", 0, "T"), SinkKey("s", 1, "T"), SinkKey("s", 0, "U")]
    monkeypatch.setattr(limits, "SINK_RECENT_MAX", rng.choice((12, 20, 10_000)))
    both, taken = Both(), 0
    for _ in range(60):
        what = rng.randrange(10)
        if what < 6:
            taken += both.send(
                rng.randrange(30), rng.randrange(1, 9), rng.randrange(3), rng.choice(keys)
            )
        elif what < 8:
            limit = rng.randrange(both.end + 1)
            for memory in (both.runs, both.ones):
                memory.forget_confirmed(limit)
        elif what < 9:
            end = max(both.end - rng.randrange(2000), both.ones.covered) // 100 * 100
            if end >= both.ones.covered:
                assert both.runs.cut(end) == both.ones.cut(end)
                both.end = end
        elif rng.random() < 0.3:
            topic = rng.choice("TU")
            for memory in (both.runs, both.ones):
                memory.forget_topic(topic)
        both.check(keys)
    assert both.runs.encode() == both.ones.encode()
    assert taken > 3
    assert both.runs.cut(0) == both.ones.cut(0)
    both.check(keys)


def test_a_run_read_again_changes_nothing() -> None:
    memory = noted(0, 1)
    memory.note_run(run(7, 2, 100))
    assert memory.find(mark(7)) is None
    memory.forget_confirmed(250)
    memory.note_run(run(7, 2, 200))
    assert memory.find(mark(7)) is None
    memory.note_run(run(7, 2, 300))
    assert memory.find(mark(8)) == MessagePosition(400, 100, 1, 4)


def test_snapshots() -> None:
    disk, memory = SimDisk(), noted(*range(5000), 6000)
    assert load_snapshot(disk, SinkMemory()) == ""
    memory.forget_confirmed(4999 * 100)
    disk.write_file(FILE, memory.encode(), backup=True)
    again = SinkMemory()
    assert load_snapshot(disk, again) is None
    assert (again.covered, again.missing, again.dirty) == (499_900, False, False)
    assert again.encode() == memory.encode()
    assert again.find(mark(4998)) is SETTLED
    assert again.find(mark(4999)) is None
    assert again.statistics()["sink_weight"] == memory.statistics()["sink_weight"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"covered":1,"crc":0,"sinks":[]}', None])
def test_a_damaged_snapshot_gives_way_to_the_one_before(damage: bytes | None) -> None:
    disk, memory = SimDisk(), noted(0)
    memory.forget_confirmed(100)
    good = memory.encode()
    bad = good.replace(b'"part":0', b'"part":1') if damage is None else damage
    disk.write_file(FILE, good, backup=True)
    disk.write_file(FILE, bad, backup=True)
    again = SinkMemory()
    assert load_snapshot(disk, again) is None
    assert again.find(mark(0)) is SETTLED
    disk.write_file(FILE, bad, backup=True)
    assert FILE in (load_snapshot(disk, again) or "")
    assert (again.find(mark(0)), again.covered) == (None, 0)


# In a store ----------------------------------------------------------------------------------


def marked(plain: Draft, seq: int) -> Draft:
    text = f"{plain.properties.decode()}\x02__SINK_ID\x01s\x02__SINK_BATCH\x010\x02__SINK_PART\x010"
    plain.properties = f"{text}\x02__SINK_SEQ\x01{seq}".encode()
    return plain


def put(store: Store, one: Draft, wall: int = WALL) -> Appended:
    """Append a sink's message as the broker does."""
    (result,) = store.append([one], wall)
    assert isinstance(result, Appended)
    found = mark_of(one.topic, props.decode_bytes(one.properties))
    assert found is not None
    store.sinks.note(
        found, MessagePosition(result.offset, result.size, one.queue_id, result.queue_offset)
    )
    return result


def save(store: Store, disk: SimDisk) -> None:
    store.forget_confirmed_sinks()
    disk.write_file(FILE, store.sinks.encode(), backup=True)


class SinkMachine(ReplicaMachine):
    """Of three messages two are a sink's: it knows those that the log has, and no others."""

    @initialize(sync_flush=st.booleans(), transient=st.booleans(), seed=st.integers(0, 1 << 30))
    def begin(self, sync_flush: bool, transient: bool, seed: int) -> None:
        ReplicaMachine.begin(self, sync_flush, transient, seed)
        self.taken: bytes | None = None
        save(self.store, self.disk)  # as a broker does at its first start

    def made(self, store: object, count: int) -> list[Known]:
        found: list[Known] = []
        target = self.store if store is self.store else self.master
        for _ in range(count):
            one = draft(self.sent, self.rng)
            if self.sent % 3 != 1:
                result = put(target, marked(one, self.sent), self.wall)
            else:
                (plain,) = target.append([one], self.wall)
                assert isinstance(plain, Appended)
                result = plain
            self.sent += 1
            found.append((result.offset, result.offset + result.size, one.body))
        return found

    @rule()
    def take_snapshot(self) -> None:
        self.store.forget_confirmed_sinks()
        self.taken = self.store.sinks.encode()

    @rule()
    def write_snapshot(self) -> None:
        """Written beside the loop, so later than it was taken."""
        if self.taken is not None:
            self.disk.write_file(FILE, self.taken, backup=True)
            self.taken = None

    def reopen(self, disk: SimDisk) -> None:
        self.taken = None
        super().reopen(disk)

    @invariant()
    def it_knows_what_the_log_has(self) -> None:
        if not hasattr(self, "taken"):
            return
        here = {int(body.partition(b":")[0]) for _, end, body in self.log if end <= self.end()}
        for number in range(self.sent):
            for topic in TOPICS:
                found = self.store.sinks.find(mark(number, key=SinkKey("s", 0, topic)))
                if found is not None:
                    assert number in here
                    here.discard(number)
        assert {number for number in here if number % 3 != 1} == set()

    def end(self) -> int:
        return self.store.whole_end


SinkMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestSinksOnAReplica = SinkMachine.TestCase


def test_a_start_reads_no_more_than_the_snapshot_lacks() -> None:
    disk = SimDisk()
    store = opened(disk, SMALL)
    for n in range(40):
        put(store, marked(draft(n, Random(n)), n))
    store.sync()
    save(store, disk)
    rest = [put(store, marked(draft(n, Random(n)), n)) for n in range(40, 44)]
    store.sync()
    store.close(WALL)
    again = opened(disk, SMALL)
    assert again.recovered.records < 20
    assert again.sinks.covered <= rest[0].offset
    assert all(_knows(again, n) for n in range(44))
    assert not _knows(again, 44)


@pytest.mark.parametrize("lost", ["file", "log"])
def test_a_lost_snapshot_or_log_is_no_false_memory(lost: str) -> None:
    disk = SimDisk()
    store = opened(disk, SMALL)
    save(store, disk)
    for n in range(40):
        put(store, marked(draft(n, Random(n)), n))
    store.sync()
    save(store, disk)
    save(store, disk)
    store.close(WALL)
    if lost == "file":
        for path in (FILE, f"{FILE}.bak"):
            disk.write_file(path, b"damaged")
        again = opened(disk, SMALL)
        assert all(_knows(again, n) for n in range(40))
    else:
        last = disk.list("commitlog")[-1]
        disk.remove(f"commitlog/{last}")
        repair = Repair(disk, SMALL)
        repair.skip(repair.damages[0])
        repair.close()
        again = opened(disk, SMALL)
        kept = {int(decode(found[3]).body.partition(b":")[0]) for found in everything(again)}
        assert {n for n in range(40) if _knows(again, n)} == kept
        assert 0 < len(kept) < 40


def _knows(store: Store, number: int) -> bool:
    keys = (SinkKey("s", 0, topic) for topic in TOPICS)
    return any(store.sinks.find(mark(number, key=key)) is not None for key in keys)


def test_a_follower_forgets_what_is_cut_off_its_log() -> None:
    master, disk = opened(), SimDisk()
    placed = [put(master, marked(draft(n, Random(n)), n)) for n in range(30)]
    follower = opened(disk)
    save(follower, disk)
    ship(master, follower)
    assert all(_knows(follower, n) for n in range(30))
    follower.sync()
    follower.limit_confirm(placed[10].offset)
    save(follower, disk)
    assert follower.sinks.covered == placed[10].offset
    follower.truncate(placed[20].offset, "a new master")
    assert [n for n in range(30) if _knows(follower, n)] == list(range(20))
    again = opened(disk.crash(1))
    assert [n for n in range(30) if _knows(again, n)] == list(range(20))
    again.truncate(placed[5].offset, "an operator's wish", operator=True)
    assert [n for n in range(30) if _knows(again, n)] == []
    assert not again._disk.exists(FILE)
