"""Handing out, waiting, waking; and what happens when a check point is not kept."""

from typing import Any

import pytest
from sim.kernel.disk import SimFile
from tests.broker.become import become
from tests.broker.broker_harness import Client, ext
from tests.broker.pop_harness import PopHarness, Popped, ack, command, pop, popped

from epochmq.base import limits
from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.requests import pop_handler
from epochmq.broker.serving.roles import Role
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode


def wait(harness: PopHarness, **more: Any) -> Client:
    """A client whose pop is held."""
    client = harness.client()
    client.put(pop(poll_ms=15_000, **more))
    harness.turn()
    assert client.take() == []
    return client


def heard(client: Client) -> list[Popped]:
    (answer,) = client.take()
    return popped(answer)


def test_the_answer_as_a_client_reads_it() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b")
    answer = harness.client().ask(pop(invisible_ms=7_000))
    fields = ext(answer)
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert fields["popTime"] == str(harness.clock.wall)
    assert fields["invisibleTime"] == "7000"
    assert fields["restNum"] == "0"
    assert 0 <= int(fields["reviveQid"]) < 8
    assert fields["startOffsetInfo"] == "0 0 0"
    assert fields["msgOffsetInfo"] == "0 0 0,1"
    assert "orderCountInfo" not in fields


def test_nothing_there_and_no_time() -> None:
    harness = PopHarness()
    answer = harness.client().ask(pop(poll_ms=0))
    assert answer.code == ResponseCode.POLLING_TIMEOUT


def test_a_message_wakes_waiting_pops() -> None:
    harness = PopHarness()
    client = wait(harness)
    harness.put(b"a")
    assert [one.body for one in heard(client)] == [b"a"]


def test_one_message_wakes_one_of_a_group_and_each_group() -> None:
    harness = PopHarness()
    first, second, other = wait(harness), wait(harness), wait(harness, group="H")
    harness.put(b"a")
    assert len(heard(first)) == 1
    assert second.take() == []
    assert len(heard(other)) == 1
    harness.put(b"b")
    assert len(heard(second)) == 1


def test_two_messages_wake_two_that_take_one_each() -> None:
    harness = PopHarness()
    first, second = wait(harness, count=1), wait(harness, count=1)
    harness.put(b"a", b"b")
    assert [one.body for one in heard(first) + heard(second)] == [b"a", b"b"]


def test_only_the_wanted_queue_wakes() -> None:
    harness = PopHarness()
    harness.topic("T", queues=2)
    client = wait(harness, queue_id=1)
    harness.put(b"a", queue_id=0)
    assert client.take() == []
    harness.put(b"b", queue_id=1)
    assert [one.body for one in heard(client)] == [b"b"]


def test_a_retry_wakes() -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    client = wait(harness)
    harness.tick()
    harness.tick(1_000)
    (again,) = heard(client)
    assert again.topic == "%RETRY%G_T"


def test_what_the_filter_does_not_want_leaves_it_waiting() -> None:
    harness = PopHarness()
    client = wait(harness, exp="red", expType="TAG")
    harness.put(b"a", TAGS="blue")
    assert client.take() == []
    harness.put(b"b", TAGS="red")
    assert [one.body for one in heard(client)] == [b"b"]


def test_the_wait_ends_a_little_early() -> None:
    harness = PopHarness()
    client = wait(harness)
    harness.tick(14_900)
    assert client.take() == []
    harness.tick(100)
    (answer,) = client.take()
    assert answer.code == ResponseCode.POLLING_TIMEOUT


def test_too_many_wait() -> None:
    harness = PopHarness(pop_polling_size=1)
    wait(harness)
    assert harness.client().ask(pop(poll_ms=15_000)).code == ResponseCode.POLLING_FULL


def test_a_closed_connection_ends_its_long_polling() -> None:
    harness = PopHarness()
    client, other = wait(harness), wait(harness)
    harness.sink.closed(client.session)
    client.session.closed = True
    harness.put(b"a")
    assert len(heard(other)) == 1


def test_a_closed_session_is_passed() -> None:
    harness = PopHarness()
    client, other = wait(harness), wait(harness)
    client.session.closed = True
    harness.put(b"a")
    assert client.take() == []
    assert len(heard(other)) == 1
    late = wait(harness)
    late.session.closed = True
    harness.tick(15_000)
    assert late.take() == []


def test_another_role_answers_everybody() -> None:
    harness = PopHarness()
    client = wait(harness)
    become(harness.node, Role.SLAVE)
    harness.store.arrivals and harness.store.arrivals([("T", 0, 1)])
    harness.turn()
    (answer,) = client.take()
    assert answer.code == ResponseCode.POLLING_TIMEOUT


def test_a_stop_answers_everybody() -> None:
    harness = PopHarness()
    client = wait(harness)
    note = harness.client()
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1, "pollTime": 9_000, "bornTime": 0}
    note.put(command(Code.NOTIFICATION, **fields))
    harness.sink.finish(harness.clock.now)
    assert client.take()[0].code == ResponseCode.POLLING_TIMEOUT
    assert ext(note.take()[0])["hasMsg"] == "false"


def test_a_group_that_went_away_while_it_waited(monkeypatch: Any) -> None:
    from epochmq.base import limits

    harness = PopHarness()
    client = wait(harness)
    harness.node.offsets.drop_group("G", harness.clock.wall)
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 0)
    harness.put(b"a")
    (answer,) = client.take()
    assert answer.code == ResponseCode.SYSTEM_ERROR


# Check points that are not kept --------------------------------------------------------------


def test_a_check_point_that_is_refused_takes_nothing() -> None:
    harness = PopHarness()
    harness.put(b"a")
    route = harness.node.internal_writer.route

    class Refusing:
        def put(self, drafts: Any, origin: Any, wall: int, done: Any) -> None:
            done([WriteOutcome.LATER] * len(drafts))

    harness.node.internal_writer.route = Refusing()
    answer = harness.client().ask(pop())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert harness.offset() == 0
    harness.node.internal_writer.route = route
    assert len(harness.pop()) == 1


def test_with_synchronous_flush_the_answer_waits_for_the_check_point() -> None:
    harness = PopHarness(flush_disk_type="SYNC_FLUSH")
    client = harness.client()
    harness.put(b"a")
    harness.store.sync()
    client.put(pop())
    harness.turn()
    other = harness.client()
    other.put(pop(poll_ms=15_000, count=1))  # finds the queue busy
    harness.put(b"b")
    harness.store.sync()
    harness.turn()
    assert [one.body for one in heard(client)] == [b"a"]
    harness.store.sync()
    harness.turn()
    harness.tick()
    assert [one.body for one in heard(other)] == [b"b"]
    assert harness.offset() == 2


def test_copies_of_messages_whose_check_points_wait_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk or replica that is slow does not let pops fill the memory."""
    monkeypatch.setattr(limits, "POP_COPIES_BYTES_MAX", 300)
    harness = PopHarness(flush_disk_type="SYNC_FLUSH")
    harness.put(b"a" * 100, b"b" * 100)
    harness.store.sync()
    harness.turn()
    clients = [harness.client() for _ in range(4)]
    for number, client in enumerate(clients):
        client.put(pop(group=f"G{number}", poll_ms=15_000))
        harness.turn()
    codes = [answer.code for client in clients for answer in client.take()]
    assert codes == [ResponseCode.POLLING_FULL] * 3
    harness.store.sync()
    harness.turn()
    assert [one.body[:1] for one in heard(clients[0])] == [b"a", b"b"]
    clients[1].put(pop(group="G1"))
    harness.turn()
    assert clients[1].take() == []  # it waits for its check point
    harness.store.sync()
    harness.turn()
    assert [one.body[:1] for one in heard(clients[1])] == [b"a", b"b"]


def test_copies_of_messages_whose_order_is_not_copied_yet_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "POP_COPIES_BYTES_MAX", 1)
    harness = PopHarness()
    waiting: list[Any] = []
    monkeypatch.setattr(pop_handler, "when_copied", lambda node, now, done: waiting.append(done))
    harness.put(b"a", b"b")
    first, second = harness.client(), harness.client()
    first.put(pop(order="true", count=1))
    harness.turn()
    assert second.ask(pop(group="H", order="true")).code == ResponseCode.POLLING_FULL
    waiting.pop()(True)
    harness.turn()
    assert [one.body for one in heard(first)] == [b"a"]
    second.put(pop(group="H", order="true"))
    harness.turn()
    waiting.pop()(True)
    harness.turn()
    assert [one.body for one in heard(second)] == [b"a", b"b"]


def test_a_client_that_left_the_group_pops_nothing_more() -> None:
    """Else the message would be out with one that has gone, for its whole invisible time."""
    harness = PopHarness()
    leaver, stays = wait(harness), wait(harness)
    leaver.put(pop(group="H", poll_ms=15_000))
    harness.turn()
    left = command(Code.UNREGISTER_CLIENT, clientID="c", consumerGroup="G")
    leaver.put(left)
    harness.turn()
    released, answer = leaver.take()
    assert (released.code, answer.code) == (ResponseCode.POLLING_TIMEOUT, 0)
    harness.put(b"a")
    assert [one.body for one in heard(stays)] == [b"a"]
    assert [one.body for one in heard(leaver)] == [b"a"]  # in the other group's name


# In order ------------------------------------------------------------------------------------


def test_an_ordered_pop_hands_out_one_batch_at_a_time() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b", b"c")
    answer = harness.client().ask(pop(order="true", count=2, invisible_ms=5_000))
    assert ext(answer)["reviveQid"] == "999"
    assert ext(answer)["orderCountInfo"] == "0 0 0"
    first, second = popped(answer)
    assert harness.pop(order="true") == []
    assert harness.offset() == 0
    harness.ack(second)
    assert harness.offset() == 0
    assert harness.pop(order="true") == []
    harness.ack(first)
    assert harness.offset() == 2
    assert [one.body for one in harness.pop(order="true")] == [b"c"]


def test_an_ordered_pop_passes_over_what_the_filter_does_not_want() -> None:
    """rocketmq#8268: there the group stood still at it."""
    harness = PopHarness()
    harness.put(b"a", b"b", TAGS="blue")
    harness.put(b"c", TAGS="red")
    harness.put(b"d", TAGS="blue")
    red = {"order": "true", "exp": "red", "expType": "TAG"}
    (one,) = harness.pop(**red)
    assert one.body == b"c"
    assert harness.pop(**red) == []
    harness.ack(one)
    assert harness.pop(**red) == []
    assert harness.offset() == 4
    harness.put(b"e", TAGS="red")
    assert [one.body for one in harness.pop(**red)] == [b"e"]


def test_what_is_over_comes_again_in_order_and_counted() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b", b"c")
    _, second, _ = harness.pop(order="true", invisible_ms=5_000)
    harness.ack(second)
    client = wait(harness, order="true")
    harness.tick(5_000)
    (answer,) = client.take()
    assert [one.body for one in popped(answer)] == [b"a", b"c"]
    assert ext(answer)["orderCountInfo"] == "0 qo0%0 1;0 qo0%2 1;0 0 1"


def test_an_acknowledgement_wakes_pops_that_wait_for_the_next_batch() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b")
    (one,) = harness.pop(order="true", count=1)
    client = wait(harness, order="true")
    assert harness.client().ask(ack(one)).code == 0
    assert [one.body for one in heard(client)] == [b"b"]


def test_too_many_ordered_queues(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "POP_ORDER_QUEUES_MAX", 0)
    harness = PopHarness()
    harness.put(b"a")
    assert harness.pop(order="true") == []


# Messages that are not in memory -------------------------------------------------------------


def cold_pop(harness: PopHarness, **more: Any) -> Client:
    """A client whose pop waits for messages from the device."""
    client = harness.client()
    client.put(pop(**more))
    harness.turn()
    assert client.take() == []
    assert harness.held_reads
    return client


@pytest.mark.parametrize("order", [False, True])
def test_messages_that_are_not_in_memory_are_read_by_another_thread(order: bool) -> None:
    harness = PopHarness()
    harness.put(b"a", b"b")
    harness.evict()
    client = cold_pop(harness, order=order)
    harness.read_device()
    assert [one.body for one in heard(client)] == [b"a", b"b"]


def test_a_pop_answers_with_what_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = PopHarness()
    harness.topic("T", queues=2)
    harness.put(b"a", queue_id=0)
    harness.put(b"b", queue_id=1)
    monkeypatch.setattr(SimFile, "is_in_memory", lambda _file, offset, _size: offset == 0)
    answer = harness.client().ask(pop())
    (first,) = [one.body for one in popped(answer)]
    assert ext(answer)["restNum"] == "1"
    monkeypatch.undo()
    assert harness.read_device() == 1
    (second,) = [one.body for one in harness.pop()]
    assert sorted([first, second]) == [b"a", b"b"]


def test_a_queue_is_read_once_for_pops_that_have_messages_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = PopHarness()
    harness.topic("T", queues=2)
    harness.put(b"a0", queue_id=0)
    harness.put(b"b", queue_id=1)
    ((cold, _, _),) = harness.store.units("T", 1, 0, 1)
    monkeypatch.setattr(SimFile, "is_in_memory", lambda _file, offset, _size: offset != cold)
    for n in range(1, 5):
        assert [one.body for one in harness.pop()] == [b"a%d" % (n - 1)]
        assert len(harness.held_reads) == 1
        harness.put(b"a%d" % n, queue_id=0)
    monkeypatch.undo()
    harness.read_device()
    assert sorted(one.body for one in harness.pop()) == [b"a4", b"b"]
    assert not harness.held_reads


def test_two_pops_that_wait_for_the_device_get_different_messages() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b")
    harness.evict()
    one, two = cold_pop(harness, count=1), cold_pop(harness, count=1)
    harness.read_device()
    assert sorted(found.body for client in (one, two) for found in heard(client)) == [b"a", b"b"]


@pytest.mark.parametrize("poll_ms", [0, 15_000])
def test_messages_that_another_pop_got_meanwhile(poll_ms: int) -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.evict()
    one, two = cold_pop(harness), cold_pop(harness, poll_ms=poll_ms)
    harness.read_device()
    assert [found.body for found in heard(one)] == [b"a"]
    if poll_ms:
        assert two.take() == []
        harness.put(b"b")
        assert [found.body for found in heard(two)] == [b"b"]
    else:
        assert [answer.code for answer in two.take()] == [ResponseCode.POLLING_TIMEOUT]


@pytest.mark.parametrize("what", ["closed", "left", "stops", "fenced"])
def test_what_happens_while_the_device_is_read(what: str) -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.evict()
    client = cold_pop(harness, poll_ms=15_000)
    if what == "closed":
        client.session.lost()
    elif what == "left":
        harness.sink.pops.left("other", client.session)
        assert client.take() == []
        harness.sink.pops.left("G", client.session)
    elif what == "stops":
        harness.sink.pops.answer_all(harness.clock.now)
    else:
        become(harness.node, Role.SLAVE)
    harness.read_device()
    codes = [answer.code for answer in client.take()]
    assert codes == ([] if what == "closed" else [ResponseCode.POLLING_TIMEOUT])
    become(harness.node, Role.MASTER)
    assert [found.body for found in harness.pop()] == [b"a"]


def test_a_held_pop_of_cold_messages_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = PopHarness()
    client = wait(harness)
    monkeypatch.setattr(SimFile, "is_in_memory", lambda *_: False)
    harness.put(b"a")
    assert client.take() == []
    harness.read_device()
    assert [one.body for one in heard(client)] == [b"a"]
