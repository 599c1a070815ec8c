"""What one pop takes: queues, retries, filters, where a new group begins, resets."""

import pytest
from tests.broker.broker_harness import ext
from tests.broker.pop_harness import PopHarness, ack, pop, popped

from epochmq.base import limits
from epochmq.model.record import decode_all
from epochmq.store.draft import Draft


def bodies(harness: PopHarness, **more: object) -> list[bytes]:
    return [one.body for one in harness.pop(**more)]


def test_all_queues_of_a_topic() -> None:
    harness = PopHarness()
    harness.topic("T", queues=3)
    for queue_id in range(3):
        harness.put(b"%d" % queue_id, queue_id=queue_id)
    assert sorted(bodies(harness)) == [b"0", b"1", b"2"]
    assert bodies(harness) == []
    assert [harness.offset(queue_id) for queue_id in range(3)] == [1, 1, 1]


def test_one_queue_and_what_is_left() -> None:
    harness = PopHarness()
    harness.topic("T", queues=2)
    harness.put(*(b"%d" % number for number in range(5)), queue_id=1)
    harness.put(b"other", queue_id=0)
    answer = harness.client().ask(pop(queue_id=1, count=2))
    assert ext(answer)["restNum"] == "3"
    assert [one.body for one in popped(answer)] == [b"0", b"1"]
    answer = harness.client().ask(pop(count=4))
    assert len(popped(answer)) == 4


def test_what_is_left_in_queues_nobody_looked_at() -> None:
    harness = PopHarness()
    harness.topic("T", queues=2)
    harness.put(b"a", b"b", queue_id=0)
    harness.put(b"a", b"b", queue_id=1)
    answer = harness.client().ask(pop(count=1))
    assert ext(answer)["restNum"] == "3"


def test_a_new_group_begins_at_the_first_or_with_the_last() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b", b"c")
    assert bodies(harness, group="first", initMode=0) == [b"a", b"b", b"c"]
    assert bodies(harness, group="last", initMode=1) == [b"c"]
    harness.topic("E", queues=1)
    assert bodies(harness, topic="E", group="last", initMode=1) == []
    harness.put(b"x", b"y", topic="E")
    assert bodies(harness, topic="E", group="last", initMode=1) == [b"x", b"y"]


def test_retries_are_read_from_the_first_by_a_group_that_begins_at_the_end() -> None:
    """rocketmq#8402: those that another group's broker put here, whose consumers come later."""
    harness = PopHarness()
    retries = "%RETRY%G_T"
    harness.topic(retries, queues=1)
    harness.put(b"r", b"s", b"t", topic=retries)
    harness.put(b"a", b"b")
    assert sorted(bodies(harness, initMode=1)) == [b"b", b"r", b"s", b"t"]


def test_tags_choose_and_the_others_are_passed() -> None:
    harness = PopHarness()
    harness.put(b"a", TAGS="red")
    harness.put(b"b", TAGS="blue")
    harness.put(b"c", TAGS="red")
    answer = harness.client().ask(pop(exp="red", expType="TAG"))
    assert [one.body for one in popped(answer)] == [b"a", b"c"]
    assert ext(answer)["startOffsetInfo"] == "0 0 0"
    assert ext(answer)["msgOffsetInfo"] == "0 0 0,2"
    harness.put(b"d", TAGS="blue")
    assert bodies(harness, exp="red || green", expType="TAG") == []
    assert harness.offset() == 4
    assert bodies(harness, exp="*", expType="TAG", group="H") == [b"a", b"b", b"c", b"d"]


def test_sql92_chooses() -> None:
    harness = PopHarness(enable_property_filter=True)
    harness.put(b"a", price="5")
    harness.put(b"b", price="15")
    assert bodies(harness, exp="price > 10", expType="SQL92") == [b"b"]


def test_retries_are_not_filtered_and_read_after_the_topic_or_first() -> None:
    for probability, expected in ((0, [b"new", b"old"]), (100, [b"old", b"new"])):
        harness = PopHarness(pop_from_retry_probability=probability)
        harness.put(b"old", TAGS="red")
        harness.pop(invisible_ms=1_000)
        harness.tick()
        harness.tick(1_000)
        harness.put(b"new", TAGS="blue")
        assert bodies(harness, exp="blue", expType="TAG") == expected


def test_retry_topics_of_both_generations() -> None:
    harness = PopHarness()
    for name in ("%RETRY%G_T", "%RETRY%G+T"):
        harness.topic(name, queues=1)
        harness.store.append([Draft(name, 0, name.encode(), b"")], harness.clock.wall)
    answer = harness.client().ask(pop())
    assert sorted(one.topic for one in popped(answer)) == ["%RETRY%G+T", "%RETRY%G_T"]
    harness.put(b"x", topic="%RETRY%G_T")
    assert bodies(harness, topic="%RETRY%G_T") == [b"x"]


def test_the_first_generation_may_be_left_out() -> None:
    harness = PopHarness(enable_retry_topic_v2=True, retrieve_message_from_pop_retry_topic_v1=False)
    harness.topic("%RETRY%G_T", queues=1)
    harness.put(b"a", topic="%RETRY%G_T")
    assert bodies(harness) == []


def test_a_retry_topic_whose_configuration_was_lost() -> None:
    harness = PopHarness()
    harness.topic("%RETRY%G_T", queues=1)
    harness.put(b"a", topic="%RETRY%G_T")
    harness.node.topics.delete("%RETRY%G_T", harness.clock.wall)
    (one,) = harness.pop()
    assert harness.client().ask(ack(one)).code == 0


def test_a_reset_goes_before_everything() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b", b"c")
    assert len(harness.pop()) == 3
    harness.node.offsets.reset("G", "T", 0, 1, harness.clock.wall)
    assert bodies(harness) == [b"b", b"c"]
    assert harness.offset() == 3


def test_an_offset_outside_the_queue() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b")
    harness.node.offsets.commit("G", "T", 0, 9)
    assert bodies(harness) == []
    assert harness.offset() == 2
    harness.put(b"c")
    assert bodies(harness) == [b"c"]


def test_nothing_beyond_what_is_readable() -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.store.limit_confirm(harness.store.pointers.appended)
    harness.put(b"b")
    assert bodies(harness) == [b"a"]
    assert harness.offset() == 0  # the check point may be lost yet
    harness.store.limit_confirm(None)
    harness.tick()
    assert harness.offset() == 1
    assert bodies(harness) == [b"b"]


def test_a_full_table_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = PopHarness()
    harness.topic("T", queues=2)
    harness.put(b"a")
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 0)
    answer = harness.client().ask(pop())
    assert answer.code == 1
    assert "full" in (answer.remark or "")
    monkeypatch.undo()
    assert bodies(harness) == [b"a"]


def test_records_come_whole() -> None:
    harness = PopHarness()
    harness.put(b"a" * 100, b"b" * 200)
    answer = harness.client().ask(pop())
    assert [len(one.body) for one in decode_all(bytes(answer.body))] == [100, 200]
