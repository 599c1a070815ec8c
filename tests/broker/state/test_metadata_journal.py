"""The journal of topics and groups: what was acknowledged is there after any crash, and damage is
never served."""

import json
from contextlib import suppress
from random import Random

import pytest
from sim.kernel.disk import PowerCut, SimDisk

from epochmq.base.errors import EnvironmentFault, StoreDamaged
from epochmq.broker.state.groups import GroupTable
from epochmq.broker.state.keeper import FOLD_MS, FOLD_SMALL_MS, MetadataKeeper
from epochmq.broker.state.metadata_journal import FILE, TableJournal, parse_generation
from epochmq.broker.state.topic_table import TopicTable
from epochmq.model.saved_file import FIELD
from epochmq.model.topic import TopicConfig

WALL = 1_700_000_000_000
State = tuple[dict[str, object], dict[str, object], dict[str, dict[str, int]]]


class Tables:
    """Topics and groups on a disk, saved as a broker does, but here and now."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.topics, self.groups = TopicTable(), GroupTable()
        self.journal = TableJournal(disk)
        self.keeper = MetadataKeeper(self.journal, (self.topics, self.groups))
        self.keeper.load()
        self.now = 0
        self.begun: list[State] = []
        """What was saved each time; the last may be on the disk, or not."""

    def save(self) -> None:
        self.begun.append(self.state())
        self.keeper.save(self.now, WALL)

    def put(self, name: str, queues: int = 4) -> None:
        self.topics.put(TopicConfig(name, queues, queues), WALL)
        self.save()

    def state(self) -> State:
        groups = {name: row for name, row in self.groups.table.items() if name.startswith("g")}
        forbidden = {name: dict(row) for name, row in self.groups.forbidden_table.items()}
        return dict(self.topics.table), groups, forbidden


def opened(disk: SimDisk) -> Tables:
    return Tables(disk)


def steps(tables: Tables) -> None:
    """A life of the tables."""
    for number in range(3):
        tables.topics.put(TopicConfig(f"t{number}", 4, 4), WALL)
        tables.groups.find(f"g{number}", WALL)
        tables.save()
    tables.topics.put(TopicConfig("t1", 9, 9, attributes={"a b": "@"}), WALL)
    tables.save()
    tables.groups.set_forbidden("g1", "t1", 4, WALL)
    tables.save()
    tables.topics.delete("t0", WALL)
    tables.groups.delete("g0", WALL)
    tables.save()
    tables.now += FOLD_MS  # the JSON files are written
    tables.save()
    tables.topics.adopt({"m": TopicConfig("m", 1, 1)}, tables.topics.version.next_version(WALL))
    tables.save()
    tables.groups.set_forbidden("g1", "t1", 0, WALL)
    tables.save()
    tables.topics.put(TopicConfig("x" * 100, 1, 1), WALL)
    tables.save()


def test_what_is_acknowledged_survives_every_crash_point() -> None:
    whole = SimDisk()
    steps(opened(whole))
    for cut in range(1, whole.operations + 1):
        for seed in range(3):
            disk, reached = SimDisk(), 0
            disk.stop_at = cut
            tables = opened(disk)
            try:
                steps(tables)
                reached = len(tables.begun)
            except PowerCut:
                reached = len(tables.begun) - 1
            states = tables.begun
            after = opened(disk.crash(seed)).state()
            allowed = [states[reached - 1] if reached else opened(SimDisk()).state()]
            allowed += states[reached : reached + 1]
            for part, found in enumerate(after):  # of the first save, which writes two files
                assert found in [state[part] for state in allowed], f"cut {cut}, seed {seed}"


def test_a_second_crash_while_it_goes_on() -> None:
    """What the first start made of a torn journal is as good as a sound one."""
    whole = SimDisk()
    steps(opened(whole))
    for cut in range(1, whole.operations + 1, 3):
        disk = SimDisk()
        disk.stop_at = cut
        with suppress(PowerCut):
            steps(opened(disk))
        again = opened(disk.crash(cut))
        again.put("later")
        wanted = again.state()
        assert opened(again.disk.crash(cut + 1)).state() == wanted


def test_one_more_topic_costs_one_line_however_many_there_are() -> None:
    disk = SimDisk()
    tables = opened(disk)
    for number in range(2000):
        tables.topics.put(TopicConfig(f"topic-{number}", 4, 4), WALL)
    tables.save()
    written: list[str] = []
    disk.on_operation = lambda _number, what: written.append(what)
    tables.put("one-more")
    assert [what.split()[:2] for what in written] == [["write", FILE], ["sync", FILE]]
    assert int(written[0].rpartition("+")[2]) < 400


def test_a_clean_stop_leaves_everything_to_rocketmq() -> None:
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    tables.put("b")
    tables.groups.find("g", WALL)
    assert b'"b"' not in (disk.read_file(TopicTable.file) or b"")
    tables.keeper.close(WALL)
    content = json.loads(disk.read_file(TopicTable.file) or b"")
    assert set(content) == {"dataVersion", "topicConfigTable", FIELD}
    assert set(content["topicConfigTable"]) == {"a", "b"}
    assert "g" in json.loads(disk.read_file(GroupTable.file) or b"")["subscriptionGroupTable"]
    assert not parse_generation(FILE, disk.read_file(FILE) or b"").lines


def test_the_json_files_are_written_a_little_later_and_when_the_journal_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    tables.put("b")
    tables.now += FOLD_SMALL_MS - 1
    tables.save()
    assert b'"b"' not in (disk.read_file(TopicTable.file) or b"")
    tables.now += 1
    tables.save()
    assert b'"b"' in (disk.read_file(TopicTable.file) or b"")
    before = disk.operations
    tables.now += 10 * FOLD_MS
    tables.save()
    assert disk.operations == before  # nothing has changed since
    monkeypatch.setattr("epochmq.broker.state.metadata_journal.JOURNAL_BYTES_MIN", 0)
    for number in range(20):
        tables.put(f"c{number}")
    assert b'"c9"' in (disk.read_file(TopicTable.file) or b"")


def test_what_rocketmq_wrote_after_a_clean_stop_is_believed() -> None:
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    tables.put("b")
    tables.keeper.close(WALL)
    theirs = b'{"topicConfigTable":{"theirs":{"topicName":"theirs"}}}'
    disk.write_file(TopicTable.file, theirs, backup=True)
    again = opened(disk)
    assert set(again.topics.table) == {"theirs"}
    again.put("ours")
    assert set(opened(disk).topics.table) == {"theirs", "ours"}


@pytest.mark.parametrize("left", [None, b'{"topicConfigTable":{}}'])
def test_changes_that_do_not_fit_the_file_keep_the_broker_down(left: bytes | None) -> None:
    """After a crash somebody else wrote the file, or took it away."""
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    tables.put("b")
    if left is None:
        disk.remove(TopicTable.file)
    else:
        disk.write_file(TopicTable.file, left)
    with pytest.raises(StoreDamaged, match=r"move config/tables\.journal away") as caught:
        opened(disk)
    assert "(of b)" in str(caught.value)
    disk.remove(FILE)
    assert set(opened(disk).topics.table) == set()


@pytest.mark.parametrize("damage", [b'{"x', b'{"topicConfigTable":{"T"', b""])
def test_a_damaged_file_is_made_again_with_nothing_missing(
    damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    tables.put("b")
    tables.now += FOLD_MS
    tables.save()
    tables.put("c")
    tables.keeper.close(WALL)
    disk.write_file(TopicTable.file, damage)
    again = opened(disk)
    assert set(again.topics.table) == {"a", "b", "c"}
    assert again.keeper.damaged == 1
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert "topics.json" in line
    assert "nothing is missing" in line
    assert disk.read_file(f"{TopicTable.file}.damaged") == damage
    again.put("d")
    assert set(opened(disk).topics.table) == {"a", "b", "c", "d"}


def test_a_damaged_file_without_a_journal_loses_what_its_bak_lacks_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimDisk()
    disk.write_file(TopicTable.file, b'{"x')
    disk.write_file(
        f"{TopicTable.file}.bak", b'{"topicConfigTable":{"T":{"topicName":"T","perm":6}}}'
    )
    assert set(opened(disk).topics.table) == {"T"}
    assert "the changes after it are lost" in caplog.text


def test_a_disk_that_refuses_loses_nothing_afterwards() -> None:
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    disk.sync_fails = lambda path: path == FILE
    tables.put("b")
    assert tables.keeper.dirty
    tables.topics.delete("a", WALL)
    disk.sync_fails = lambda path: False
    tables.save()
    assert not tables.keeper.dirty
    assert set(opened(disk.crash(1)).topics.table) == {"b"}


@pytest.mark.parametrize("stopped", [True, False])
def test_no_flipped_bit_changes_a_table_silently(stopped: bool) -> None:
    """Of the JSON files, their `.bak` and both journals."""
    disk = SimDisk()
    tables = opened(disk)
    steps(tables)
    tables.put("last")
    if stopped:
        tables.keeper.close(WALL)
    wanted, refused, same = tables.state(), 0, 0
    rng = Random(7)
    for path in (TopicTable.file, GroupTable.file, FILE):
        for name in (path, f"{path}.bak"):
            data = disk.read_file(name)
            assert data is not None
            bits = range(8 * len(data))
            for bit in bits if name == FILE else rng.sample(bits, min(400, len(bits))):
                flipped = bytearray(data)
                flipped[bit >> 3] ^= 1 << (bit & 7)
                copy = disk.kill()
                copy.write_file(name, bytes(flipped))
                try:
                    found = opened(copy).state()
                except EnvironmentFault:
                    refused += 1
                    continue
                assert found == wanted, f"{name} bit {bit}"
                same += 1
    assert refused
    assert same


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_last_line_that_was_not_finished_is_left_out(cut: int) -> None:
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    tables.put("b")
    tables.put("c")
    data = disk.read_file(FILE)
    assert data is not None
    disk.write_file(FILE, data[:-cut])
    again = opened(disk)
    assert set(again.topics.table) == ({"a", "b", "c"} if cut == 1 else {"a", "b"})
    again.put("d")
    assert "d" in opened(disk).topics.table


def test_an_edited_file_is_accepted_once_its_checksum_is_removed() -> None:
    disk = SimDisk()
    tables = opened(disk)
    tables.put("a")
    tables.keeper.close(WALL)
    text = (disk.read_file(TopicTable.file) or b"").replace(b'"a"', b'"edited"')
    disk.write_file(TopicTable.file, text)
    with pytest.raises(StoreDamaged, match=f"remove the line with {FIELD}"):
        opened(disk)
    disk.write_file(TopicTable.file, text[: text.rindex(b",")] + b"}")
    assert set(opened(disk).topics.table) == {"edited"}
