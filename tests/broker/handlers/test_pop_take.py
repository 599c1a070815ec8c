"""What one pop takes: queues, retries, filters, where a new group begins, resets."""

import pytest
from tests.broker.desk import ext
from tests.broker.pop_desk import PopDesk, ack, pop, popped

from epochmq.base import limits
from epochmq.model.record import decode_all
from epochmq.store.draft import Draft


def bodies(desk: PopDesk, **more: object) -> list[bytes]:
    return [one.body for one in desk.pop(**more)]


def test_all_queues_of_a_topic() -> None:
    desk = PopDesk()
    desk.topic("T", queues=3)
    for queue_id in range(3):
        desk.put(b"%d" % queue_id, queue_id=queue_id)
    assert sorted(bodies(desk)) == [b"0", b"1", b"2"]
    assert bodies(desk) == []
    assert [desk.offset(queue_id) for queue_id in range(3)] == [1, 1, 1]


def test_one_queue_and_what_is_left() -> None:
    desk = PopDesk()
    desk.topic("T", queues=2)
    desk.put(*(b"%d" % number for number in range(5)), queue_id=1)
    desk.put(b"other", queue_id=0)
    answer = desk.client().ask(pop(queue_id=1, count=2))
    assert ext(answer)["restNum"] == "3"
    assert [one.body for one in popped(answer)] == [b"0", b"1"]
    answer = desk.client().ask(pop(count=4))
    assert len(popped(answer)) == 4


def test_what_is_left_in_queues_nobody_looked_at() -> None:
    desk = PopDesk()
    desk.topic("T", queues=2)
    desk.put(b"a", b"b", queue_id=0)
    desk.put(b"a", b"b", queue_id=1)
    answer = desk.client().ask(pop(count=1))
    assert ext(answer)["restNum"] == "3"


def test_a_new_group_begins_at_the_first_or_with_the_last() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b", b"c")
    assert bodies(desk, group="first", initMode=0) == [b"a", b"b", b"c"]
    assert bodies(desk, group="last", initMode=1) == [b"c"]
    desk.topic("E", queues=1)
    assert bodies(desk, topic="E", group="last", initMode=1) == []
    desk.put(b"x", b"y", topic="E")
    assert bodies(desk, topic="E", group="last", initMode=1) == [b"x", b"y"]


def test_retries_are_read_from_the_first_by_a_group_that_begins_at_the_end() -> None:
    """rocketmq#8402: those that another group's broker put here, whose consumers come later."""
    desk = PopDesk()
    retries = "%RETRY%G_T"
    desk.topic(retries, queues=1)
    desk.put(b"r", b"s", b"t", topic=retries)
    desk.put(b"a", b"b")
    assert sorted(bodies(desk, initMode=1)) == [b"b", b"r", b"s", b"t"]


def test_tags_choose_and_the_others_are_passed() -> None:
    desk = PopDesk()
    desk.put(b"a", TAGS="red")
    desk.put(b"b", TAGS="blue")
    desk.put(b"c", TAGS="red")
    answer = desk.client().ask(pop(exp="red", expType="TAG"))
    assert [one.body for one in popped(answer)] == [b"a", b"c"]
    assert ext(answer)["startOffsetInfo"] == "0 0 0"
    assert ext(answer)["msgOffsetInfo"] == "0 0 0,2"
    desk.put(b"d", TAGS="blue")
    assert bodies(desk, exp="red || green", expType="TAG") == []
    assert desk.offset() == 4
    assert bodies(desk, exp="*", expType="TAG", group="H") == [b"a", b"b", b"c", b"d"]


def test_sql92_chooses() -> None:
    desk = PopDesk(enable_property_filter=True)
    desk.put(b"a", price="5")
    desk.put(b"b", price="15")
    assert bodies(desk, exp="price > 10", expType="SQL92") == [b"b"]


def test_retries_are_not_filtered_and_read_after_the_topic_or_first() -> None:
    for probability, expected in ((0, [b"new", b"old"]), (100, [b"old", b"new"])):
        desk = PopDesk(pop_from_retry_probability=probability)
        desk.put(b"old", TAGS="red")
        desk.pop(invisible_ms=1_000)
        desk.tick()
        desk.tick(1_000)
        desk.put(b"new", TAGS="blue")
        assert bodies(desk, exp="blue", expType="TAG") == expected


def test_retry_topics_of_both_generations() -> None:
    desk = PopDesk()
    for name in ("%RETRY%G_T", "%RETRY%G+T"):
        desk.topic(name, queues=1)
        desk.store.append([Draft(name, 0, name.encode(), b"")], desk.clock.wall)
    answer = desk.client().ask(pop())
    assert sorted(one.topic for one in popped(answer)) == ["%RETRY%G+T", "%RETRY%G_T"]
    desk.put(b"x", topic="%RETRY%G_T")
    assert bodies(desk, topic="%RETRY%G_T") == [b"x"]


def test_the_first_generation_may_be_left_out() -> None:
    desk = PopDesk(enable_retry_topic_v2=True, retrieve_message_from_pop_retry_topic_v1=False)
    desk.topic("%RETRY%G_T", queues=1)
    desk.put(b"a", topic="%RETRY%G_T")
    assert bodies(desk) == []


def test_a_retry_topic_whose_configuration_was_lost() -> None:
    desk = PopDesk()
    desk.topic("%RETRY%G_T", queues=1)
    desk.put(b"a", topic="%RETRY%G_T")
    desk.node.topics.delete("%RETRY%G_T", desk.clock.wall)
    (one,) = desk.pop()
    assert desk.client().ask(ack(one)).code == 0


def test_a_reset_goes_before_everything() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b", b"c")
    assert len(desk.pop()) == 3
    desk.node.offsets.reset("G", "T", 0, 1, desk.clock.wall)
    assert bodies(desk) == [b"b", b"c"]
    assert desk.offset() == 3


def test_an_offset_outside_the_queue() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b")
    desk.node.offsets.commit("G", "T", 0, 9)
    assert bodies(desk) == []
    assert desk.offset() == 2
    desk.put(b"c")
    assert bodies(desk) == [b"c"]


def test_nothing_beyond_what_is_readable() -> None:
    desk = PopDesk()
    desk.put(b"a")
    desk.store.limit_confirm(desk.store.pointers.appended)
    desk.put(b"b")
    assert bodies(desk) == [b"a"]
    assert desk.offset() == 0  # the check point may be lost yet
    desk.store.limit_confirm(None)
    desk.tick()
    assert desk.offset() == 1
    assert bodies(desk) == [b"b"]


def test_a_full_table_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = PopDesk()
    desk.topic("T", queues=2)
    desk.put(b"a")
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 0)
    answer = desk.client().ask(pop())
    assert answer.code == 1
    assert "full" in (answer.remark or "")
    monkeypatch.undo()
    assert bodies(desk) == [b"a"]


def test_records_come_whole() -> None:
    desk = PopDesk()
    desk.put(b"a" * 100, b"b" * 200)
    answer = desk.client().ask(pop())
    assert [len(one.body) for one in decode_all(bytes(answer.body))] == [100, 200]
