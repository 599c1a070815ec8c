"""Handing out, waiting, waking; and what happens when a check point is not kept."""

from typing import Any

from tests.broker.desk import Client, ext
from tests.broker.pop_desk import PopDesk, Popped, ack, command, pop, popped

from epochmq.broker.internal_writes.internal_writer import Outcome
from epochmq.broker.roles import Role
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode


def wait(desk: PopDesk, **more: Any) -> Client:
    """A client whose pop is held."""
    client = desk.client()
    client.put(pop(poll_ms=15_000, **more))
    desk.turn()
    assert client.take() == []
    return client


def heard(client: Client) -> list[Popped]:
    (answer,) = client.take()
    return popped(answer)


def test_the_answer_as_a_client_reads_it() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b")
    answer = desk.client().ask(pop(invisible_ms=7_000))
    fields = ext(answer)
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert fields["popTime"] == str(desk.clock.wall)
    assert fields["invisibleTime"] == "7000"
    assert fields["restNum"] == "0"
    assert 0 <= int(fields["reviveQid"]) < 8
    assert fields["startOffsetInfo"] == "0 0 0"
    assert fields["msgOffsetInfo"] == "0 0 0,1"
    assert "orderCountInfo" not in fields


def test_nothing_there_and_no_time() -> None:
    desk = PopDesk()
    answer = desk.client().ask(pop(poll_ms=0))
    assert answer.code == ResponseCode.POLLING_TIMEOUT


def test_a_message_wakes_who_waits() -> None:
    desk = PopDesk()
    client = wait(desk)
    desk.put(b"a")
    assert [one.body for one in heard(client)] == [b"a"]


def test_one_message_wakes_one_of_a_group_and_each_group() -> None:
    desk = PopDesk()
    first, second, other = wait(desk), wait(desk), wait(desk, group="H")
    desk.put(b"a")
    assert len(heard(first)) == 1
    assert second.take() == []
    assert len(heard(other)) == 1
    desk.put(b"b")
    assert len(heard(second)) == 1


def test_two_messages_wake_two_that_take_one_each() -> None:
    desk = PopDesk()
    first, second = wait(desk, count=1), wait(desk, count=1)
    desk.put(b"a", b"b")
    assert [one.body for one in heard(first) + heard(second)] == [b"a", b"b"]


def test_only_the_wanted_queue_wakes() -> None:
    desk = PopDesk()
    desk.topic("T", queues=2)
    client = wait(desk, queue_id=1)
    desk.put(b"a", queue_id=0)
    assert client.take() == []
    desk.put(b"b", queue_id=1)
    assert [one.body for one in heard(client)] == [b"b"]


def test_a_retry_wakes() -> None:
    desk = PopDesk()
    desk.put(b"a")
    desk.pop(invisible_ms=1_000)
    client = wait(desk)
    desk.tick()
    desk.tick(1_000)
    (again,) = heard(client)
    assert again.topic == "%RETRY%G_T"


def test_what_the_filter_does_not_want_leaves_it_waiting() -> None:
    desk = PopDesk()
    client = wait(desk, exp="red", expType="TAG")
    desk.put(b"a", TAGS="blue")
    assert client.take() == []
    desk.put(b"b", TAGS="red")
    assert [one.body for one in heard(client)] == [b"b"]


def test_the_wait_ends_a_little_early() -> None:
    desk = PopDesk()
    client = wait(desk)
    desk.tick(14_900)
    assert client.take() == []
    desk.tick(100)
    (answer,) = client.take()
    assert answer.code == ResponseCode.POLLING_TIMEOUT


def test_too_many_wait() -> None:
    desk = PopDesk(pop_polling_size=1)
    wait(desk)
    assert desk.client().ask(pop(poll_ms=15_000)).code == ResponseCode.POLLING_FULL


def test_who_hangs_up_waits_no_more() -> None:
    desk = PopDesk()
    client, other = wait(desk), wait(desk)
    desk.sink.closed(client.session)
    client.session.closed = True
    desk.put(b"a")
    assert len(heard(other)) == 1


def test_a_closed_session_is_passed() -> None:
    desk = PopDesk()
    client, other = wait(desk), wait(desk)
    client.session.closed = True
    desk.put(b"a")
    assert client.take() == []
    assert len(heard(other)) == 1
    late = wait(desk)
    late.session.closed = True
    desk.tick(15_000)
    assert late.take() == []


def test_another_role_answers_everybody() -> None:
    desk = PopDesk()
    client = wait(desk)
    desk.node.take_role(Role.SLAVE)
    desk.store.arrivals and desk.store.arrivals([("T", 0, 1)])
    desk.turn()
    (answer,) = client.take()
    assert answer.code == ResponseCode.POLLING_TIMEOUT


def test_a_stop_answers_everybody() -> None:
    desk = PopDesk()
    client = wait(desk)
    note = desk.client()
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1, "pollTime": 9_000, "bornTime": 0}
    note.put(command(Code.NOTIFICATION, **fields))
    desk.sink.finish(desk.clock.now)
    assert client.take()[0].code == ResponseCode.POLLING_TIMEOUT
    assert ext(note.take()[0])["hasMsg"] == "false"


def test_a_group_that_went_away_while_it_waited(monkeypatch: Any) -> None:
    from epochmq.base import limits

    desk = PopDesk()
    client = wait(desk)
    desk.node.offsets.drop_group("G", desk.clock.wall)
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 0)
    desk.put(b"a")
    (answer,) = client.take()
    assert answer.code == ResponseCode.SYSTEM_ERROR


# Check points that are not kept --------------------------------------------------------------


def test_a_check_point_that_is_refused_takes_nothing() -> None:
    desk = PopDesk()
    desk.put(b"a")
    route = desk.node.internal_writer.route

    class Refusing:
        def put(self, drafts: Any, origin: Any, wall: int, done: Any) -> None:
            done([Outcome.LATER] * len(drafts))

    desk.node.internal_writer.route = Refusing()
    answer = desk.client().ask(pop())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert desk.offset() == 0
    desk.node.internal_writer.route = route
    assert len(desk.pop()) == 1


def test_with_synchronous_flush_the_answer_waits_for_the_check_point() -> None:
    desk = PopDesk(flush_disk_type="SYNC_FLUSH")
    client = desk.client()
    desk.put(b"a")
    desk.store.sync()
    client.put(pop())
    desk.turn()
    other = desk.client()
    other.put(pop(poll_ms=15_000, count=1))  # finds the queue busy
    desk.put(b"b")
    desk.store.sync()
    desk.turn()
    assert [one.body for one in heard(client)] == [b"a"]
    desk.store.sync()
    desk.turn()
    desk.tick()
    assert [one.body for one in heard(other)] == [b"b"]
    assert desk.offset() == 2


def test_who_leaves_the_group_is_given_nothing_more() -> None:
    """Else the message would be out with one that has gone, for its whole invisible time."""
    desk = PopDesk()
    leaver, stays = wait(desk), wait(desk)
    leaver.put(pop(group="H", poll_ms=15_000))
    desk.turn()
    left = command(Code.UNREGISTER_CLIENT, clientID="c", consumerGroup="G")
    leaver.put(left)
    desk.turn()
    released, answer = leaver.take()
    assert (released.code, answer.code) == (ResponseCode.POLLING_TIMEOUT, 0)
    desk.put(b"a")
    assert [one.body for one in heard(stays)] == [b"a"]
    assert [one.body for one in heard(leaver)] == [b"a"]  # in the other group's name


# In order ------------------------------------------------------------------------------------


def test_an_ordered_pop_hands_out_one_batch_at_a_time() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b", b"c")
    answer = desk.client().ask(pop(order="true", count=2, invisible_ms=5_000))
    assert ext(answer)["reviveQid"] == "999"
    assert ext(answer)["orderCountInfo"] == "0 0 0"
    first, second = popped(answer)
    assert desk.pop(order="true") == []
    assert desk.offset() == 0
    desk.ack(second)
    assert desk.offset() == 0
    assert desk.pop(order="true") == []
    desk.ack(first)
    assert desk.offset() == 2
    assert [one.body for one in desk.pop(order="true")] == [b"c"]


def test_an_ordered_pop_passes_over_what_the_filter_does_not_want() -> None:
    """rocketmq#8268: there the group stood still at it."""
    desk = PopDesk()
    desk.put(b"a", b"b", TAGS="blue")
    desk.put(b"c", TAGS="red")
    desk.put(b"d", TAGS="blue")
    red = {"order": "true", "exp": "red", "expType": "TAG"}
    (one,) = desk.pop(**red)
    assert one.body == b"c"
    assert desk.pop(**red) == []
    desk.ack(one)
    assert desk.pop(**red) == []
    assert desk.offset() == 4
    desk.put(b"e", TAGS="red")
    assert [one.body for one in desk.pop(**red)] == [b"e"]


def test_what_is_over_comes_again_in_order_and_counted() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b", b"c")
    _, second, _ = desk.pop(order="true", invisible_ms=5_000)
    desk.ack(second)
    client = wait(desk, order="true")
    desk.tick(5_000)
    (answer,) = client.take()
    assert [one.body for one in popped(answer)] == [b"a", b"c"]
    assert ext(answer)["orderCountInfo"] == "0 qo0%0 1;0 qo0%2 1;0 0 1"


def test_an_acknowledgement_wakes_who_waits_for_the_next_batch() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b")
    (one,) = desk.pop(order="true", count=1)
    client = wait(desk, order="true")
    assert desk.client().ask(ack(one)).code == 0
    assert [one.body for one in heard(client)] == [b"b"]


def test_too_many_ordered_queues(monkeypatch: Any) -> None:
    from epochmq.base import limits

    monkeypatch.setattr(limits, "POP_ORDER_QUEUES_MAX", 0)
    desk = PopDesk()
    desk.put(b"a")
    assert desk.pop(order="true") == []
