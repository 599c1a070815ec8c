"""The journal on a disk that loses power: what was synced is there, what was not may be."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.disk import PowerCut, SimDisk

from epochmq.base.errors import DiskFull, OurBug, StoreDamaged, StoreInUse, SyncFailed
from epochmq.raft.journal import Journal
from epochmq.raft.messages import Entry, EntryKind, HardState, Members, Snapshot
from epochmq.raft.ready import Ready, Saved
from epochmq.runtime.disk import RealDisk

BOOTSTRAP = Members(("n0", "n1"))


def ready(
    *entries: Entry, state: HardState | None = None, snapshot: Snapshot | None = None
) -> Ready:
    return Ready(state, entries, snapshot, (), (), (), True)


def entry(index: int, term: int = 1, data: bytes = b"x") -> Entry:
    return Entry(term, index, EntryKind.DATA, data)


def journal_on(disk: SimDisk | RealDisk, owner: str = "n0") -> Journal:
    return Journal(disk, "raft", owner=owner, chunk_bytes=4096)


def reopen(disk: SimDisk) -> Saved:
    return journal_on(disk).load(Members(()))


def test_a_new_journal_remembers_its_first_members() -> None:
    disk = SimDisk()
    saved = journal_on(disk).load(BOOTSTRAP)
    assert saved == Saved(HardState(), Snapshot(0, 0, BOOTSTRAP))
    assert reopen(disk.crash(1)) == saved, "the configured members of a later start do not matter"


def test_what_was_synced_is_there() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    state = HardState(1, "n0", 0)
    journal.save(ready(entry(1), entry(2), state=state))
    assert journal.must_sync
    journal.sync()
    assert not journal.is_dirty
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


def test_a_snapshot_makes_the_file_anew() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    for index in range(1, 300):
        journal.save(ready(entry(index, data=b"z" * 50)))
    journal.sync()
    long = journal.end
    snapshot = Snapshot(299, 1, BOOTSTRAP, b"state")
    journal.rewrite(Saved(HardState(1, None, 299), snapshot))
    journal.save(ready(entry(300)))
    journal.sync()
    assert journal.end < long / 10
    assert reopen(disk.crash(1)) == Saved(HardState(1, None, 299), snapshot, (entry(300),))


def test_a_received_snapshot_replaces_the_log() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1), state=HardState(1, "n1", 0)))
    snapshot = Snapshot(10, 2, BOOTSTRAP, b"state")
    journal.save(ready(snapshot=snapshot, state=HardState(2, None, 10)))
    journal.sync()
    assert reopen(disk.crash(1)) == Saved(HardState(2, None, 10), snapshot)
    assert reopen(disk.kill()) == Saved(HardState(2, None, 10), snapshot)


def test_what_is_saved_during_a_sync_goes_with_the_next() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.save(ready(entry(1)))
    first = journal.take()
    journal.save(ready(entry(2)))
    first()
    assert reopen(disk.crash(1)).entries == (entry(1),)
    journal.sync()
    assert reopen(disk.crash(1)).entries == (entry(1), entry(2))


class Model:
    """Every state that a power cut may leave."""

    def __init__(self) -> None:
        self.now = Saved(HardState(), Snapshot(0, 0, BOOTSTRAP))
        self.allowed = [self.now]
        self._whole: Saved | None = None

    def save(self, state: HardState, new: tuple[Entry, ...]) -> None:
        """Record by record, unless the file is to be made anew with all of them."""
        self._to(Saved(state, self.now.snapshot, self.now.entries))
        for one in new:
            kept = self.now.entries[: one.index - self.now.snapshot.index - 1]
            self._to(Saved(state, self.now.snapshot, (*kept, one)))

    def rewrite(self, saved: Saved) -> None:
        self.now = self._whole = saved
        self.allowed = [self.allowed[0], saved]

    def _to(self, saved: Saved) -> None:
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
            first = rng.randint(max(low, end - 3) + 1, end + 1)
            term += rng.randrange(2)
            count = rng.randint(1, 3)
            sizes = [rng.choice((3, 700)) for _ in range(count)]
            new = tuple(entry(first + i, term, rng.randbytes(sizes[i])) for i in range(count))
            state = HardState(term, None, low)
            model.save(state, new)
            journal.save(ready(*new, state=state))
            if rng.randrange(6) == 0:
                at = rng.randint(low + 1, _end(model.now))
                tail = tuple(one for one in model.now.entries if one.index > at)
                snapshot = Snapshot(at, 0, BOOTSTRAP, b"%d" % at)
                model.rewrite(Saved(HardState(term, None, at), snapshot, tail))
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


def _end(saved: Saved) -> int:
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
    assert (saved.hard_state, saved.entries) == (HardState(1, None, 1), (entry(1),))
    journal.save(ready(entry(2), state=HardState(1, None, 1)))


def test_a_missing_entry_refuses_to_start() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    journal.rewrite(Saved(HardState(), Snapshot(0, 0, BOOTSTRAP), (entry(1), entry(3))))
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


def test_on_the_real_disk(tmp_path: Path) -> None:
    """The port's other side: grow, make anew, stop in the middle of a record, open again."""
    disk = RealDisk(str(tmp_path))
    journal = journal_on(disk)
    journal.load(BOOTSTRAP)
    for index in range(1, 40):
        journal.save(ready(entry(index, data=bytes(300)), state=HardState(1, "n1", index - 1)))
        journal.sync()
    tail = tuple(entry(index, data=bytes(300)) for index in (38, 39))
    journal.rewrite(Saved(HardState(1, "n1", 38), Snapshot(37, 1, BOOTSTRAP, b"s"), tail))
    journal.sync()
    journal.save(ready(entry(40)))
    journal.sync()
    journal.close()
    with (tmp_path / "raft" / "journal").open("r+b") as file:
        file.seek(journal.end)
        file.write(b"\0\0\0\x40half")
    journal = journal_on(disk)
    saved = journal.load(Members(()))
    assert saved.snapshot == Snapshot(37, 1, BOOTSTRAP, b"s")
    assert saved.entries == (*tail, entry(40))
    journal.close()
    again = journal_on(disk)
    assert again.load(Members(())) == saved
    again.close()
