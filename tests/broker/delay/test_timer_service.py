"""The timer of a broker: how it begins, what it refuses, how it is saved."""

import pytest
from tests.broker.become import become
from tests.broker.delay.timers import TimerBroker
from tests.broker.slow import Slow

from epochmq.base.errors import SyncFailed
from epochmq.broker.serving.roles import Role
from epochmq.store.timer.timer_checkpoint import FILE, decode
from epochmq.store.timer.timer_files import TimerFiles
from epochmq.wire.codes import ResponseCode


def test_an_idle_timer_writes_nothing() -> None:
    broker = TimerBroker()
    broker.run(5000)
    broker.save()
    assert not TimerFiles.exist(broker.disk)
    assert broker.disk.read_file(FILE) is None


def test_after_a_kill_only_what_came_since_the_save_is_hung_up_again() -> None:
    broker = TimerBroker()
    broker.put(*[b"%d" % n for n in range(40)], TIMER_DELAY_MS=5000)
    broker.run(1000)
    broker.save()
    broker.put(b"late", TIMER_DELAY_MS=5000)
    broker.run(100)
    after = broker.again(broker.disk.kill())
    assert (after.timer.driver.rebuilds, after.timer.driver.core.cursor) == (0, 40)
    after.tick()
    assert after.timer.driver.enqueued == 1
    assert len(after.run(6000)) == 41


@pytest.mark.parametrize("kind", ["cut", "changed", "another precision", "no file"])
def test_a_checkpoint_that_vouches_for_nothing(kind: str) -> None:
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=5000)
    broker.put(b"b", TIMER_DELAY_MS=1000)
    broker.run(2500)
    broker.save()
    disk = broker.disk.kill()
    data = disk.read_file(FILE)
    assert data is not None
    changes = {}
    if kind == "cut":
        disk.write_file(FILE, data[:20])
    elif kind == "changed":
        disk.write_file(FILE, data[:7] + b"\xff" + data[8:])
    elif kind == "another precision":
        changes["timer_precision_ms"] = 500
    else:
        disk.remove(FILE)
    after = TimerBroker(disk, **changes)
    after.clock.wall, after.clock.now = broker.clock.wall, broker.clock.now
    assert after.timer.driver.rebuilds == 1
    bodies = after.run(4000)
    assert b"a" in bodies
    if kind == "another precision":
        assert bodies.count(b"b") == 1  # what it says of time and offsets still counts


def test_flow_control_for_one_time() -> None:
    broker = TimerBroker(timer_congest_num_each_slot=2)
    codes = []
    for _ in range(12):
        (answer,) = broker.put(b"x", TIMER_DELAY_MS=5000)
        codes.append((answer.code, (answer.remark or "")[:32]))
        broker.tick()
    refused = (ResponseCode.SYSTEM_ERROR, "timer message is under flow cont")
    assert codes[:3] == [(ResponseCode.SUCCESS, "")] * 3
    assert refused in codes[3:]
    assert set(codes[3:]) <= {(ResponseCode.SUCCESS, ""), refused}
    assert broker.timer.driver.count_at(broker.clock.wall + 4999) <= 5


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"TIMER_DELAY_SEC": 4 * 86_400}, "timerMaxDelaySec"),
        ({"TIMER_DELIVER_MS": "x"}, "timer message illegal"),
        ({"TIMER_DELAY_MS": -1, "TIMER_DEL_UNIQKEY": "k"}, "timer message illegal"),
        ({"TIMER_DELAY_MS": 5000, "a": "x" * 32_600}, "properties length"),
    ],
)
def test_bad_requests(asked: dict[str, object], said: str) -> None:
    (answer,) = TimerBroker().put(b"x", **asked)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert said in (answer.remark or "")


def test_a_level_is_stronger_and_the_past_is_now() -> None:
    broker = TimerBroker()
    broker.put(b"level", DELAY=1, TIMER_DELAY_MS=9000)
    broker.put(b"past", TIMER_DELIVER_MS=1)
    assert broker.bodies() == [b"past"]
    assert len(broker.stored("SCHEDULE_TOPIC_XXXX")) == 1


def test_the_checkpoint_is_upstreams() -> None:
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=500)
    broker.run(2000)
    broker.save()
    data = broker.disk.read_file(FILE)
    assert data is not None
    found = decode(data, 1000)
    assert found is not None
    assert found.last_read_ms == broker.clock.wall // 1000 * 1000
    assert (found.queue_offset, found.master_offset) == (1, 1)
    assert found.counter == 1


def test_rates_are_sampled() -> None:
    broker = TimerBroker()
    broker.put(*[b"x"] * 10, TIMER_DELAY_MS=500)
    broker.run(5000)
    assert broker.timer.taken.total == 10
    assert broker.timer.given.rate(10) > 0


def test_after_a_failed_sync_the_files_are_created_again() -> None:
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=5000)
    broker.run(1500)
    broker.disk.sync_fails = lambda path: path == "timerwheel"
    with pytest.raises(SyncFailed):
        broker.save()
    broker.disk.sync_fails = lambda path: False
    assert broker.run(100) == []
    assert broker.timer.driver.rebuilds == 1
    assert broker.run(5000) == [b"a"]


def test_a_resting_timer_puts_nothing_and_repeats_nothing() -> None:
    """A lease that is over for a moment: what was under way came twice when it was renewed."""
    broker = TimerBroker()
    broker.put(b"a", TIMER_DELAY_MS=500)
    slow = Slow(broker)
    assert broker.run(1500) == [b"a"]
    broker.put(b"b", TIMER_DELAY_MS=500)
    for _ in range(20):
        broker.clock.step(100)
        broker.timer.tick(broker.clock.wall, delivers=False, rests=True)
    assert broker.timer.next_deadline(broker.clock.wall) is None
    assert broker.timer.driver.behind() == 0
    slow.answer(held=True)
    assert broker.bodies() == [b"a"]
    del broker.node.when_kept
    assert broker.run(1000) == [b"a", b"b"]


def test_a_lease_that_is_over_is_rest_and_another_role_is_not() -> None:
    node = TimerBroker().node
    assert (node.serving.delivers, node.serving.rests) == (True, False)
    node.serving.grant_lease(node.clock.now_ms())
    assert (node.serving.delivers, node.serving.rests) == (False, True)
    node.serving.deliver_from(7)
    assert (node.serving.delivers, node.serving.rests) == (False, False)
    node.serving.deliver_from(None)
    become(node, Role.SLAVE)
    assert (node.serving.delivers, node.serving.rests) == (False, False)
