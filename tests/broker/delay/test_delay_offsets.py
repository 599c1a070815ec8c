"""delayOffset.json: written by us, read by RocketMQ, and the other way round."""

from tests.broker.fake_disk import FakeDisk

from epochmq.broker.delay.delay_schedule import DelayOffsets, Schedule
from epochmq.broker.state.saved_files import load_table, save_dirty
from epochmq.model.data_version import DataVersion

JAVA = b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},"offsetTable":{1:7,2:0,9:4}}'


def test_a_javas_file_is_read() -> None:
    table = DelayOffsets(Schedule((1000, 5000)))
    assert load_table(FakeDisk({"config/delayOffset.json": JAVA}), table)
    assert table.schedule.progress() == {1: 7, 2: 0}
    assert table.version.counter == 3
    assert not table.dirty


def test_what_is_written_is_read_again() -> None:
    table = DelayOffsets(Schedule((1000, 5000)))
    assert not table.dirty
    table.schedule.found(2, [5], 10_000)
    table.schedule.delivered(2, 1)
    assert table.dirty
    disk = FakeDisk()
    assert save_dirty(disk, [table]) == 1
    assert not table.dirty
    assert b'"offsetTable":{"1":0,"2":1}' in disk.files["config/delayOffset.json"]
    other = DelayOffsets(Schedule((1000, 5000)))
    load_table(disk, other)
    assert other.schedule.progress() == {1: 0, 2: 1}


def test_a_damaged_file_falls_back_to_the_one_before() -> None:
    files = {"config/delayOffset.json": b"{", "config/delayOffset.json.bak": JAVA}
    table = DelayOffsets(Schedule((1000,)))
    load_table(FakeDisk(files), table)
    assert table.schedule.progress() == {1: 7}
    assert table.dirty


def test_the_version_steps_once_in_many_deliveries() -> None:
    table = DelayOffsets(Schedule((1000,)), version_step=3)
    for offset in range(1, 8):
        table.schedule.found(1, [5], 10_000)
        table.schedule.delivered(1, offset)
        table.step_version(100 + offset)
    assert (table.version.counter, table.version.timestamp) == (2, 106)
    for offset in range(8, 17):  # nine more before anybody looks
        table.schedule.found(1, [5], 10_000)
        table.schedule.delivered(1, offset)
    table.step_version(200)
    assert (table.version.counter, table.version.timestamp) == (5, 200)


def test_a_merge_takes_the_further_level_and_steps_past_both_versions() -> None:
    table = DelayOffsets(Schedule((1000, 5000), {1: 3, 2: 9}))
    table.version = DataVersion(0, 2, 50)
    there = {"offsetTable": {"1": 7, "2": 8}, "dataVersion": {"counter": 6, "timestamp": 60}}
    assert table.merge(there, 70) == 1
    assert table.schedule.progress() == {1: 7, 2: 9}
    assert table.version == DataVersion(0, 7, 70)
    assert table.dirty
    assert table.merge(there, 80) == 0
    assert table.version == DataVersion(0, 8, 80)


def test_a_slave_that_stood_in_stays_where_it_is_further() -> None:
    """Its master may have taken nothing back: what was delivered is not delivered again."""
    table = DelayOffsets(Schedule((1000, 5000)))
    table.load({"offsetTable": {"1": 5, "2": 3}, "dataVersion": {"counter": 9}})
    table.follow({"offsetTable": {"1": 4, "2": 6}, "dataVersion": {"counter": 2}})
    assert table.schedule.progress() == {1: 5, 2: 6}
    assert table.version.counter == 9
    assert table.dirty
