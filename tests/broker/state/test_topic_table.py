"""The topic table: creation on send, admin changes, versions, its file."""

import json

import msgspec
import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.state.saved_files import load_table
from epochmq.broker.state.topic_table import TopicTable, Wishes, check_topic_config, system_topics
from epochmq.model.data_version import DataVersion
from epochmq.model.topic import TopicConfig

WALL = 1_700_000_000_000


def fresh(*, auto_create: bool = True) -> TopicTable:
    table = TopicTable(auto_create=auto_create)
    table.add_system(system_topics(Wishes("C", "b", auto_create=True)))
    return table


def test_system_topics_make_no_version() -> None:
    table = fresh()
    assert table.version == DataVersion()
    assert not table.dirty
    assert not table.changed
    assert table.is_system("C")
    assert table.is_system("rmq_sys_anything")
    assert not table.is_system("T")


def test_create_on_send_inherits() -> None:
    table = fresh()
    config = table.create_on_send("T", "TBW102", 4, 1, WALL)
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (4, 4, 6)
    assert config.topic_sys_flag == 1
    assert table.create_on_send("T", "TBW102", 9, 0, WALL) is config
    assert table.pop_changed(lambda name: False) == [config]
    assert not table.changed
    assert table.dirty
    assert table.version == DataVersion(0, 1, WALL)


@pytest.mark.parametrize(("asked", "given"), [(100, 8), (8, 8), (1, 1), (0, 1), (-5, 1)])
def test_queue_numbers_of_created_topics(asked: int, given: int) -> None:
    config = fresh().create_on_send("T", "TBW102", asked, 0, WALL)
    assert config is not None
    assert config.write_queue_nums == given


def test_create_on_send_needs_something_to_inherit() -> None:
    table = fresh()
    assert table.create_on_send("T", "NOWHERE", 4, 0, WALL) is None
    assert table.create_on_send("T", "BenchmarkTest", 4, 0, WALL) is None
    assert table.get("T") is None


def test_auto_create_off_takes_it_from_the_default_topic_only() -> None:
    table = fresh(auto_create=False)
    assert table.create_on_send("T", "TBW102", 4, 0, WALL) is None
    assert table.create_on_send("T", "C", 4, 0, WALL) is not None


def test_bad_names_never_get_in() -> None:
    table = fresh()
    with pytest.raises(Refused):
        table.create_on_send("../../etc", "TBW102", 4, 0, WALL)
    with pytest.raises(Refused):
        table.ensure("a b", 1, 6, WALL)
    with pytest.raises(Refused):
        table.put(TopicConfig(topic_name=""), WALL)


def test_ensure() -> None:
    table = fresh()
    made = table.ensure("%RETRY%g", 1, 6, WALL, sys_flag=2, order=True)
    assert (made.order, made.topic_sys_flag, made.write_queue_nums) == (True, 2, 1)
    assert table.is_order("%RETRY%g")
    assert table.ensure("%RETRY%g", 3, 6, WALL) is made
    assert table.ensure("%RETRY%g", 3, 6, WALL, order=True) is made
    changed = table.ensure("%RETRY%g", 3, 6, WALL, order=False)
    assert not changed.order
    assert table.get("%RETRY%g") is changed
    assert not table.is_order("nothing")


def test_update_alters_attributes_and_is_idempotent() -> None:
    table = fresh()
    wanted = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)
    table.update(wanted, {"+message.type": "FIFO"}, WALL)
    version = table.version
    same = table.update(wanted, {}, WALL + 1)
    assert same.attributes == {"message.type": "FIFO"}
    assert table.version == version
    table.update(wanted, {"-message.type": ""}, WALL + 2)
    assert table.version.counter == version.counter + 1
    assert table.table["T"].attributes == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"read_queue_nums": 0},
        {"write_queue_nums": -1},
        {"read_queue_nums": limits.QUEUES_PER_TOPIC_MAX + 1},
        {"perm": 16},
        {"perm": -1},
        {"topic_filter_type": "NO_TAG"},
    ],
)
def test_nonsense_is_refused(fields: dict[str, object]) -> None:
    config = msgspec.structs.replace(TopicConfig(topic_name="T"), **fields)
    with pytest.raises(Refused):
        check_topic_config(config)


def test_delete() -> None:
    table = fresh()
    table.ensure("T", 1, 6, WALL)
    assert table.delete("T", WALL)
    assert not table.changed
    assert table.version.counter == 2
    assert not table.delete("T", WALL)
    assert table.version.counter == 2


def test_the_number_of_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = fresh()
    monkeypatch.setattr(limits, "TOPICS_MAX", len(table))
    with pytest.raises(Refused, match="already"):
        table.ensure("T", 1, 6, WALL)
    table.put(TopicConfig(topic_name="BenchmarkTest"), WALL)


def test_state_version_goes_into_the_version() -> None:
    table = fresh()
    table.state_version = 7
    table.step_version(WALL)
    assert table.version == DataVersion(7, 1, WALL)


def test_file_has_upstreams_shape() -> None:
    table = TopicTable()
    table.put(TopicConfig(topic_name="T", attributes={"message.type": "FIFO"}), WALL)
    assert json.loads(table.encode()) == {
        "dataVersion": {"stateVersion": 0, "counter": 1, "timestamp": WALL},
        "topicConfigTable": {
            "T": {
                "topicName": "T",
                "readQueueNums": 16,
                "writeQueueNums": 16,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0,
                "order": False,
                "attributes": {"message.type": "FIFO"},
            }
        },
    }


def test_files_of_old_java_brokers_are_read() -> None:
    text = b"""{
\t"dataVersion":{
\t\t"counter":{"value":3},
\t\t"timestamp":1700000000000
\t},
\t"topicConfigTable":{"T":{"order":false,"perm":7,"readQueueNums":5,"topicFilterType":"SINGLE_TAG",
\t"topicName":"T","topicSysFlag":0,"writeQueueNums":5},"U":{"perm":2}}
}"""
    plain = text.replace(b'{"value":3}', b"3")
    table = fresh()
    assert load_table(FakeDisk({TopicTable.file: plain}), table)
    assert table.version == DataVersion(0, 3, 1_700_000_000_000)
    assert table.table["T"].read_queue_nums == 5
    assert table.table["U"].topic_name == "U"
    assert "SELF_TEST_TOPIC" in table


def test_what_the_file_says_of_system_topics_stays() -> None:
    table = TopicTable()
    table.load({"topicConfigTable": {"TBW102": {"perm": 6, "writeQueueNums": 2}}})
    table.add_system(system_topics(Wishes("C", "b")))
    assert table.table["TBW102"].perm == 6


def test_a_replica_makes_nothing_by_itself() -> None:
    """INV-32's spirit for metadata: it would differ from the master's for ever."""
    table = TopicTable()
    table.frozen = True
    before = table.version
    assert table.ensure("%RETRY%G", 1, 6, 0).topic_name == "%RETRY%G"
    assert "%RETRY%G" not in table
    assert table.version is before
    assert not table.changed
