"""The journal on a disk that loses power: what was synced is there, what was not may be."""

from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import PowerCut, SimDisk

from epochmq.base.errors import (
    DiskFull,
    OurBug,
    OutOfResources,
    StoreDamaged,
    StoreInUse,
    SyncFailed,
)
from epochmq.raft.journal_records import RecordKind, encode, size_of
from epochmq.raft.outbox import Ready, SavedState
from epochmq.raft.raft_journal import Journal
from epochmq.raft.raft_messages import EntryKind, HardState, LogEntry, Snapshot, VotersAndLearners
from epochmq.runtime.disk import RealDisk

BOOTSTRAP = VotersAndLearners(("n0", "n1"))


def ready(
    *entries: LogEntry, state: HardState | None = None, snapshot: Snapshot | None = None
) -> Ready:
    return Ready(state, entries, snapshot, (), (), (), True)


def entry(index: int, term: int = 1, data: bytes = b"x") -> LogEntry:
    return LogEntry(term, index, EntryKind.DATA, data)


def journal_on(disk: SimDisk | RealDisk, owner: str = "n0") -> Journal:
    return Journal(disk, "raft", owner=owner, chunk_bytes=4096)


def reopen(disk: SimDisk) -> SavedState:
    return journal_on(disk).load(VotersAndLearners(()))


def test_a_new_journal_remembers_its_first_members() -> None:
    disk = SimDisk()
    saved = journal_on(disk).load(BOOTSTRAP)
    assert saved == SavedState(HardState(), Snapshot(0, 0, BOOTSTRAP))
    assert reopen(disk.crash(1)) == saved, "the configured members of a later start do not matter"


def test_what_was_synced_is_there() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    state = HardState(1, "n0", 0)
    journal.save(ready(entry(1), entry(2), state=state))
    assert journal.must_sync
    journal.sync()
    saved = reopen(disk.crash(1))
    assert saved.hard_state == state
    assert saved.entries == (entry(1), entry(2))


def test_entries_replace_what_had_their_index() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1), entry(2), entry(3)))
    journal.save(ready(entry(2, term=2)))
    journal.sync()
    assert reopen(disk.crash(1)).entries == (entry(1), entry(2, term=2))


def test_a_snapshot_rewrites_the_file() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    for index in range(1, 300):
        journal.save(ready(entry(index, data=b"z" * 50)))
    journal.sync()
    long = journal.end
    snapshot = Snapshot(299, 1, BOOTSTRAP, b"state")
    journal.rewrite(SavedState(HardState(1, None, 299), snapshot))
    journal.save(ready(entry(300)))
    journal.sync()
    assert journal.end < long / 10
    assert reopen(disk.crash(1)) == SavedState(HardState(1, None, 299), snapshot, (entry(300),))


def test_a_received_snapshot_replaces_the_log() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1), state=HardState(1, "n1", 0)))
    snapshot = Snapshot(10, 2, BOOTSTRAP, b"state")
    journal.save(ready(snapshot=snapshot, state=HardState(2, None, 10)))
    journal.sync()
    assert reopen(disk.crash(1)) == SavedState(HardState(2, None, 10), snapshot)
    assert reopen(disk.kill()) == SavedState(HardState(2, None, 10), snapshot)


def test_what_is_saved_during_a_sync_goes_with_the_next() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1)))
    first = journal.pop_writes()
    journal.save(ready(entry(2)))
    first()
    assert reopen(disk.crash(1)).entries == (entry(1),)
    journal.sync()
    assert reopen(disk.crash(1)).entries == (entry(1), entry(2))


class Model:
    """Every state that a power cut may leave."""

    def __init__(self) -> None:
        self.now = SavedState(HardState(), Snapshot(0, 0, BOOTSTRAP))
        self.allowed = [self.now]
        self._whole: SavedState | None = None

    def save(self, state: HardState, new: tuple[LogEntry, ...]) -> None:
        """Record by record, the commit index last, unless the file is to be created again."""
        promised = HardState(state.term, state.vote, self.now.hard_state.commit)
        self._to(SavedState(promised, self.now.snapshot, self.now.entries))
        for one in new:
            kept = self.now.entries[: one.index - self.now.snapshot.index - 1]
            self._to(SavedState(promised, self.now.snapshot, (*kept, one)))
        self._to(SavedState(state, self.now.snapshot, self.now.entries))

    def rewrite(self, saved: SavedState) -> None:
        self.now = self._whole = saved
        self.allowed = [self.allowed[0], saved]

    def _to(self, saved: SavedState) -> None:
        self.now = saved
        self.allowed = [*self.allowed[: 1 if self._whole else None], saved]

    def synced(self) -> None:
        self.allowed, self._whole = [self.now], None


@given(st.integers(0, 1_000_000))
def test_power_cut_at_any_operation(seed: int) -> None:
    """INV-05, INV-16: everything that a sync covered is there, and a prefix of the rest."""
    rng, disk, model, term = Random(seed), SimDisk(), Model(), 0
    journal = journal_on(disk)
    disk.stop_at = rng.randrange(1, 80)
    try:
        journal.load(BOOTSTRAP)
        while True:
            low, end = model.now.snapshot.index, _end(model.now)
            decided = model.now.hard_state.commit
            first = rng.randint(max(decided, end - 3) + 1, end + 1)
            term += rng.randrange(2)
            count = rng.randint(1, 3)
            sizes = [rng.choice((3, rng.randrange(600), 700)) for _ in range(count)]
            new = tuple(entry(first + i, term, rng.randbytes(sizes[i])) for i in range(count))
            state = HardState(term, None, rng.randint(decided, first + count - 1))
            model.save(state, new)
            journal.save(ready(*new, state=state))
            if rng.randrange(6) == 0:
                at = rng.randint(low + 1, _end(model.now))
                tail = tuple(one for one in model.now.entries if one.index > at)
                snapshot = Snapshot(at, 0, BOOTSTRAP, b"%d" % at)
                commit = max(at, state.commit)
                model.rewrite(SavedState(HardState(term, None, commit), snapshot, tail))
                journal.rewrite(model.now)
            if rng.randrange(2):
                journal.sync()
                model.synced()
    except PowerCut:
        pass
    after = disk.crash(seed)
    found = journal_on(after).load(BOOTSTRAP)
    assert found in model.allowed
    assert reopen(after.kill()) == found, "recovery changes nothing"


def _end(saved: SavedState) -> int:
    return saved.snapshot.index + len(saved.entries)


def test_a_torn_tail_is_cut_for_good() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1)))
    journal.sync()
    file = disk.open("raft/journal")
    file.write(journal.end, b"\0\0\0\x40half a record")
    file.sync()
    after = disk.crash(1)
    assert reopen(after).entries == (entry(1),)
    assert b"half" not in after.contents()["raft/journal"]


def test_a_flipped_bit_in_the_middle_refuses_to_start() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    for index in (1, 2, 3):
        journal.save(ready(entry(index, data=b"payload")))
        journal.sync()
    file = disk.open("raft/journal")
    at = file.read(0, 4096).index(b"payload")
    file.write(at, b"P")
    with pytest.raises(StoreDamaged, match=r"raft/journal is damaged at byte \d+"):
        reopen(disk.crash(1))


def test_a_commit_index_whose_entries_were_torn_off_is_cut_as_well() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1)))
    journal.sync()
    begin = journal.end
    journal.save(ready(entry(2, data=b"y" * 50), state=HardState(1, None, 2)))
    journal.sync()
    file = disk.open("raft/journal")
    file.write(journal.end - 40, bytes(40))
    assert begin < journal.end - 100
    file.sync()
    journal = journal_on(disk.kill())
    saved = journal.load(BOOTSTRAP)
    assert (saved.hard_state, saved.entries) == (HardState(1, None, 0), (entry(1),))
    journal.save(ready(entry(2), state=HardState(1, None, 1)))


REPLACED = tuple(entry(index, 3, b"NEW" + bytes([index]) * 700) for index in (6, 7, 8))


def replaced_tail(size: int) -> tuple[SimDisk, Journal]:
    """Entries 6 to 9 of term 2 are there; those of term 3 that were decided replace them."""
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    old = tuple(entry(index, 2, b"old" + b"x" * size) for index in range(1, 10))
    journal.save(ready(*old, state=HardState(2, None, 5)))
    journal.sync()
    journal.save(ready(*REPLACED, state=HardState(3, None, 8)))
    return disk, journal


@pytest.mark.parametrize("size", range(280, 420, 7))
def test_no_power_cut_takes_replaced_entries_for_committed(size: int) -> None:
    """The commit index of a batch must not reach the device before the batch's entries."""
    whole = 0
    for seed in range(40):
        for operation in range(1, 5):
            disk, journal = replaced_tail(size)
            disk.stop_at = disk.operations + operation
            with suppress(PowerCut):
                journal.sync()
            saved = reopen(disk.crash(seed))
            decided = saved.entries[5 : saved.hard_state.commit]
            assert decided == REPLACED[: len(decided)]
            assert saved.hard_state.commit in (5, 8)
            whole += saved.hard_state.commit == 8
    assert 0 < whole < 160


def write_as_before(disk: SimDisk, commit: int, entries: tuple[LogEntry, ...]) -> None:
    """A journal of a version that wrote the commit index in front, and without an order."""
    packed = msgspec.msgpack.encode
    old = tuple(entry(index, 2, b"old") for index in range(1, 10))
    whole = [
        (RecordKind.SNAPSHOT, packed(Snapshot(0, 0, BOOTSTRAP))),
        (RecordKind.HARD_STATE, packed(HardState(2, None, 5))),
        *((RecordKind.ENTRY, packed(one)) for one in old),
    ]
    birth = size_of(packed(("n0", bytes(8)))) + sum(size_of(body) for _kind, body in whole)
    records = [encode(RecordKind.BIRTH, packed(("n0", birth.to_bytes(8, "big"))), 0)]
    records += [encode(kind, body, 0) for kind, body in whole]
    added = [(RecordKind.HARD_STATE, packed(HardState(3, None, commit)))]
    added += [(RecordKind.ENTRY, packed(one)) for one in entries]
    records += [encode(kind, body, birth) for kind, body in added]
    disk.make_dir("raft")
    disk.write_file("raft/journal", b"".join(records).ljust(16384, b"\0"))


def test_a_journal_of_an_older_version_is_read_and_its_last_commit_index_is_not_believed() -> None:
    disk = SimDisk()
    write_as_before(disk, 8, REPLACED)
    saved = reopen(disk.kill())
    assert saved.hard_state == HardState(3, None, 5)
    assert saved.entries[5:] == REPLACED
    torn = SimDisk()
    write_as_before(torn, 8, ())
    saved = reopen(torn.kill())
    assert saved.hard_state == HardState(3, None, 5), "entries 6 to 8 are those of term 2"
    after = torn.kill()
    journal = journal_on(after)
    assert journal.load(BOOTSTRAP) == saved
    journal.save(ready(*REPLACED, state=HardState(3, None, 8)))
    journal.sync()
    assert reopen(after.crash(1)).hard_state == HardState(3, None, 8), "it was created again"


def test_a_missing_entry_refuses_to_start() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.rewrite(SavedState(HardState(), Snapshot(0, 0, BOOTSTRAP), (entry(1), entry(3))))
    journal.sync()
    with pytest.raises(StoreDamaged, match="entry 3 does not follow entry 1"):
        reopen(disk.crash(1))


def test_another_nodes_journal_is_refused() -> None:
    disk = SimDisk()
    journal_on(disk, "n0").load(BOOTSTRAP)
    with pytest.raises(StoreDamaged, match="belongs to Raft node n0, this is n1"):
        journal_on(disk.crash(1), "n1").load(BOOTSTRAP)


def test_two_processes_cannot_have_it() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    with pytest.raises(StoreInUse):
        journal_on(disk).load(BOOTSTRAP)
    journal.close()
    journal_on(disk).load(BOOTSTRAP)


def test_term_and_commit_never_go_back() -> None:
    journal = journal_on(SimDisk())
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1), state=HardState(3, None, 1)))
    with pytest.raises(OurBug, match="INV-05"):
        journal.save(ready(state=HardState(2, None, 1)))
    with pytest.raises(OurBug, match="INV-05"):
        journal.save(ready(state=HardState(3, None, 0)))
    with pytest.raises(OurBug, match="INV-02"):
        journal.save(ready(entry(3)))


def test_faults_of_the_disk_come_out() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    disk.sync_fails = lambda _path: True
    journal.save(ready(entry(1)))
    with pytest.raises(SyncFailed):
        journal.sync()
    disk = SimDisk(quota_bytes=8192)
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1, data=bytes(20_000))))
    with pytest.raises(DiskFull):
        journal.sync()
    disk.quota_bytes = 1 << 30
    assert reopen(disk.kill()).entries == ()


@pytest.mark.parametrize("rewrites", [False, True])
def test_without_a_descriptor_the_same_write_may_be_tried_again(rewrites: bool) -> None:
    """Whichever operation it was that found none, and whether or not it had an effect."""
    struck = 0
    for operation in range(1, 12):
        disk = SimDisk()
        journal = journal_on(disk)
        journal.load(BOOTSTRAP)
        first = disk.operations

        def strike(number: int, what: str, at: int = first + operation) -> None:
            nonlocal struck
            if number == at and not what.startswith("sync"):
                struck += 1
                raise OutOfResources("Too many open files")

        disk.on_operation = strike
        state = HardState(1, "n1", 2)
        if rewrites:
            journal.rewrite(SavedState(state, Snapshot(2, 1, BOOTSTRAP, b"s")))
        entries = tuple(entry(index, data=bytes(3000)) for index in (3, 4))
        if not rewrites:
            entries = (entry(1), entry(2), *entries)
        journal.save(ready(*entries, state=state))
        call = journal.pop_writes()
        for _ in range(2):
            with suppress(OutOfResources):
                call()
                break
        disk.on_operation = None
        journal.save(ready(entry(5), state=HardState(1, "n1", 5)))
        journal.sync()
        saved = reopen(disk.crash(1))
        assert saved.hard_state == HardState(1, "n1", 5)
        assert saved.entries == (*entries, entry(5))
    assert struck > 1


@pytest.mark.parametrize("clean", [False, True])
def test_every_flipped_bit_is_noticed_or_changes_nothing(clean: bool) -> None:
    """No bit of a journal may change a vote, a term, a commit index or an entry unnoticed.

    After a crash the last write may look torn, see ADR 0021: what it said is missing then, as after
    a power cut in the middle of it, and never another. After a clean stop nothing may be missing.
    """
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    writes = [
        ready(entry(1), entry(2), state=HardState(1, "n1", 0)),
        ready(entry(3, data=b"z" * 600), state=HardState(1, "n1", 2)),
        ready(entry(3, term=2), state=HardState(2, "n0", 2)),
    ]
    for write in writes:
        journal.save(write)
        journal.sync()
    last_write = journal.end
    journal.save(ready(entry(4, term=2, data=b"last"), state=HardState(2, "n0", 3)))
    journal.sync()
    if clean:
        journal.save(ready(state=HardState(3, None, 4)))  # it was not taken
        journal.close(clean=True)
    whole = reopen(disk.kill())
    assert whole.hard_state == HardState(2, "n0", 3)
    good = disk.contents()["raft/journal"]
    shorter = [
        SavedState(HardState(2, "n0", 2), whole.snapshot, whole.entries[:3]),
        SavedState(HardState(2, "n0", 2), whole.snapshot, whole.entries),
    ]
    refused = 0
    for bit in range((journal.end + 64) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        damaged = SimDisk()
        damaged.make_dir("raft")
        damaged.write_file("raft/journal", bytes(bad))
        try:
            found = reopen(damaged)
        except StoreDamaged:
            refused += 1
            continue
        torn = not clean and bit // 8 >= last_write
        assert found == whole or (torn and found in shorter), bit
    assert refused > last_write * 8 - 1


def test_a_write_that_failed_is_not_vouched_for_by_a_clean_stop() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    disk.sync_fails = lambda _path: True
    journal.save(ready(entry(1), state=HardState(1, "n1", 1)))
    with pytest.raises(SyncFailed):
        journal.sync()
    before = disk.operations
    journal.close(clean=True)
    assert disk.operations == before


def test_on_the_real_disk(tmp_path: Path) -> None:
    """The port's other side: grow, create again, stop in the middle of a record, open again."""
    disk = RealDisk(str(tmp_path))
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    for index in range(1, 40):
        journal.save(ready(entry(index, data=bytes(300)), state=HardState(1, "n1", index - 1)))
        journal.sync()
    tail = tuple(entry(index, data=bytes(300)) for index in (38, 39))
    journal.rewrite(SavedState(HardState(1, "n1", 38), Snapshot(37, 1, BOOTSTRAP, b"s"), tail))
    journal.sync()
    journal.save(ready(entry(40)))
    journal.sync()
    journal.close()
    with (tmp_path / "raft" / "journal").open("r+b") as file:
        file.seek(journal.end)
        file.write(b"\0\0\0\x40half")
    journal = journal_on(disk)
    saved = journal.load(VotersAndLearners(()))
    assert saved.snapshot == Snapshot(37, 1, BOOTSTRAP, b"s")
    assert saved.entries == (*tail, entry(40))
    journal.close()
    again = journal_on(disk)
    assert again.load(VotersAndLearners(())) == saved
    again.close()
