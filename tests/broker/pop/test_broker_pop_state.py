"""INV-28 through a whole broker, against a plain list of who has what.

Between a pop and its deadline nobody else is given the message; what is acknowledged never comes
again; what is not comes again; nothing vanishes - whatever the internal writer refuses, the clocks
do and the process dies of. With `enablePopBufferMerge` a crash forgets acknowledgements and hands
out again, so there only "nothing vanishes" holds across one.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.broker.become import become
from tests.broker.broker_harness import ext
from tests.broker.pop_harness import PopHarness, Popped, ack, hide
from tests.tiers import examples

from epochmq.base import limits
from epochmq.base.unbounded import FOREVER
from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.broker.pop import revive_driver
from epochmq.broker.serving.roles import Role
from epochmq.store.draft import Draft

RETRY = "%RETRY%G_T"


def buffered(**more: object) -> PopHarness:
    harness = PopHarness(enable_pop_buffer_merge=True, **more)
    return harness


def revive_records(harness: PopHarness) -> int:
    return sum(len(harness.stored("rmq_sys_REVIVE_LOG_c", queue)) for queue in range(8))


def test_what_is_acknowledged_soon_is_never_written() -> None:
    harness = buffered()
    harness.put(b"a", b"b")
    first, second = harness.pop()
    assert harness.offset() == 0
    harness.ack(second)
    assert harness.offset() == 0
    harness.ack(first)
    assert harness.offset() == 2
    harness.tick(100_000)
    assert revive_records(harness) == 0
    assert harness.pop() == []


def test_what_is_not_is_written_and_comes_back() -> None:
    harness = buffered()
    harness.put(b"a", b"b")
    first, _second = harness.pop(invisible_ms=60_000)
    harness.ack(first)
    harness.tick(10_000)
    assert (revive_records(harness), harness.offset()) == (1, 2)
    harness.tick(49_999)
    assert harness.stored(RETRY) == []
    harness.tick(1)
    assert [message.body for message in harness.stored(RETRY)] == [b"b"]


def test_windows_are_committed_in_order() -> None:
    harness = buffered()
    harness.put(b"a", b"b")
    (first,) = harness.pop(count=1)
    (second,) = harness.pop(count=1)
    harness.ack(second)
    assert harness.offset() == 0
    harness.ack(first)
    assert harness.offset() == 2


def test_a_full_buffer_writes_at_once() -> None:
    harness = buffered(pop_ck_offset_max_queue_size=1)
    harness.put(b"a", b"b")
    harness.pop(count=1)
    assert revive_records(harness) == 1 or harness.offset() == 0
    harness.pop(count=1)
    assert revive_records(harness) >= 1


def test_a_stop_writes_what_is_young() -> None:
    harness = buffered()
    harness.put(b"a")
    harness.pop()
    harness.sink.finish(harness.clock.now)
    assert (revive_records(harness), harness.offset()) == (1, 1)


def test_a_young_one_that_is_refused_is_written_later() -> None:
    harness = buffered()
    harness.put(b"a")
    (one,) = harness.pop()
    moody = Moody(harness)
    moody.refuse = 1
    harness.tick(10_000)
    assert revive_records(harness) == 0
    harness.tick(1_000)
    assert revive_records(harness) == 1
    harness.ack(one)


def test_another_role_forgets_what_it_had() -> None:
    harness = buffered()
    harness.put(b"a")
    harness.pop()
    become(harness.node, Role.SLAVE)
    harness.tick(20_000)
    become(harness.node, Role.MASTER)
    harness.tick()
    assert [one.body for one in harness.pop()] == [b"a"]


def test_a_lease_that_is_over_for_a_moment_and_a_clock_that_is_set() -> None:
    """What was read was read again, and was due by what the wall clock said then."""
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=30_000)
    harness.tick()
    harness.clock.wall += 60_000
    harness.rest(20_000)
    harness.tick(9_999)
    assert harness.stored(RETRY) == []
    harness.tick(1)
    assert [one.body for one in harness.stored(RETRY)] == [b"a"]


def test_without_a_lease_nothing_is_revived() -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.tick()
    node = harness.node
    assert node.pop.next_deadline(harness.clock.now) == harness.clock.now + 1_000
    node.serving.grant_lease(harness.clock.now)
    harness.tick(2_000)
    assert (node.pop.next_deadline(harness.clock.now), harness.stored(RETRY)) == (None, [])
    node.serving.grant_lease(FOREVER)
    harness.tick()
    assert len(harness.stored(RETRY)) == 1


@pytest.mark.parametrize("step_ms", [-60_000, 60_000])
@pytest.mark.parametrize("merge", [False, True])
def test_a_clock_that_is_set_before_the_check_point_is_read(merge: bool, step_ms: int) -> None:
    """A young one is read ten seconds after the pop."""
    harness = PopHarness(enable_pop_buffer_merge=merge)
    harness.put(b"a")
    harness.pop(invisible_ms=30_000)
    harness.clock.wall += step_ms
    harness.tick(10_000)
    harness.tick(19_999)
    assert harness.stored(RETRY) == []
    harness.tick(1)
    assert [one.body for one in harness.stored(RETRY)] == [b"a"]


def test_so_many_check_points_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the others the wall clock says when they are due."""
    monkeypatch.setattr(revive_driver, "GIVEN_MAX", 1)
    harness = PopHarness()
    harness.put(b"a", b"b")
    for _ in range(2):
        harness.pop(count=1, invisible_ms=30_000)
    harness.clock.wall += 60_000
    harness.tick()
    assert [one.body for one in harness.stored(RETRY)] == [b"a"]


def test_a_commit_that_finds_no_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = buffered()
    harness.put(b"a")
    (one,) = harness.pop()
    harness.node.offsets.drop_group("G", harness.clock.wall)
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 0)
    harness.ack(one)
    assert "is not stored" in caplog.text


def test_the_next_deadline_is_the_earliest() -> None:
    harness = PopHarness()
    assert harness.node.pop.next_deadline(harness.clock.now) is None
    harness.put(b"a", b"b")
    harness.pop(order="true", count=1, invisible_ms=3_000)
    assert harness.node.pop.next_deadline(harness.clock.now) == harness.clock.now + 3_000


def test_revive_queues_follow_the_topic_and_else_the_option() -> None:
    harness = PopHarness(revive_queue_num=5)
    assert harness.node.pop.revive_queues() == 8
    harness.node.topics.delete("rmq_sys_REVIVE_LOG_c", harness.clock.wall)
    assert harness.node.pop.revive_queues() == 5


class Moody:
    """The internal writer's route; refuses the next `refuse` calls."""

    def __init__(self, harness: PopHarness) -> None:
        self.inner = harness.node.internal_writer.route
        self.refuse = 0
        harness.node.internal_writer.route = self

    def put(self, drafts: list[Draft], origin: Origin, wall: int, done: Done) -> None:
        if self.refuse:
            self.refuse -= 1
            done([WriteOutcome.LATER] * len(drafts))
        else:
            self.inner.put(drafts, origin, wall, done)


class Slowly(RuleBasedStateMachine):
    """One queue, one group, many consumers."""

    merge = False

    def __init__(self) -> None:
        super().__init__()
        self.harness = PopHarness(enable_pop_buffer_merge=self.merge)
        self.moody = Moody(self.harness)
        self.sent: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.tried: set[bytes] = set()
        """Acknowledged without a good answer: it may have been taken (`PopBuffer.ack`)."""
        self.repeated: set[bytes] = set()
        self.held: dict[bytes, tuple[Popped, int]] = {}
        self.saved: dict[str, object] = {}

    @initialize()
    def some(self) -> None:
        self.send(3)

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        bodies = [b"m%d" % number for number in range(len(self.sent), len(self.sent) + count)]
        self.harness.put(*bodies)
        self.sent |= set(bodies)

    @rule(count=st.integers(1, 4), ms=st.sampled_from([1_000, 4_000, 30_000]))
    def pop(self, count: int, ms: int) -> None:
        now = self.harness.clock.now
        for one in self.harness.pop(count=count, invisible_ms=ms):
            assert one.body in self.sent
            if one.body in self.repeated:
                self.acked.discard(one.body)
            assert one.body not in self.acked
            if one.body in self.held and one.body not in self.repeated:
                assert self.held[one.body][1] <= now, "handed out to two"
            self.held[one.body] = one, now + ms

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        body = data.draw(st.sampled_from(sorted(self.held)))
        one, until = self.held.pop(body)
        answer = self.harness.client().ask(ack(one))
        if answer.code == 0:
            self.acked.add(body)
            return
        self.tried.add(body)
        if self.moody.refuse == 0:
            assert until <= self.harness.clock.now or answer.code == 1
        else:
            self.held[body] = one, until

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ms=st.sampled_from([1_000, 9_000]))
    def hide(self, data: st.DataObject, ms: int) -> None:
        body = data.draw(st.sampled_from(sorted(self.held)))
        one, until = self.held[body]
        answer = self.harness.client().ask(hide(one, ms))
        now = self.harness.clock.now
        if answer.code:
            return
        fields = ext(answer)
        mark, queue_id = one.handle.split()[4], one.message.queue_id
        handle = (
            f"{one.offset} {fields['popTime']} {ms} {fields['reviveQid']} {mark} b {queue_id}"
            f" {one.offset}"
        )
        # With the old check point not acknowledged it may come earlier: then it is held twice.
        self.held[body] = one._replace(handle=handle), min(until, now + ms)

    @rule(ms=st.integers(0, 5_000))
    def pass_time(self, ms: int) -> None:
        self.harness.tick(ms)
        flying: dict[str, set[int]] = {}
        for key, offsets in self.harness.node.pop.in_flight():
            assert offsets == sorted(set(offsets))
            flying.setdefault(key.topic, set()).update(offsets)
        assert flying.get("T", set()) <= set(range(len(self.sent)))
        for body, (one, until) in self.held.items():
            if until > self.harness.clock.now and body not in self.tried | self.repeated:
                assert one.offset in flying.get(one.topic, set())

    @rule(ms=st.integers(-20_000, 20_000))
    def step_the_clock(self, ms: int) -> None:
        self.harness.clock.wall += ms

    @rule(ms=st.integers(0, 5_000))
    def be_without_a_lease(self, ms: int) -> None:
        self.harness.rest(ms)

    @rule(count=st.integers(1, 3))
    def refuse(self, count: int) -> None:
        self.moody.refuse = count

    @rule()
    def save(self) -> None:
        offsets = self.harness.node.offsets
        rows = {name: dict(row) for name, row in offsets.table.items()}
        self.saved = {"offsetTable": rows}

    @rule(saved_last=st.booleans())
    def crash(self, saved_last: bool) -> None:
        """The process dies; the log is there, the offsets are those of the last save."""
        if saved_last:
            self.save()
        old = self.harness
        times = old.clock.now + 5, old.clock.wall
        self.harness = PopHarness(
            disk=old.disk.kill(), enable_pop_buffer_merge=self.merge, times=times
        )
        self.harness.node.offsets.adopt(self.saved, whole=True)
        self.harness.node.pop.role_changed()
        self.moody = Moody(self.harness)
        self.harness.tick()
        if self.merge or not saved_last:
            # The group's offset lies before what was handed out: all that comes again.
            self.repeated |= self.sent
        self.held = {body: (one, 0) for body, (one, _) in self.held.items()}

    def teardown(self) -> None:
        """In the end every message is handed out until it is acknowledged."""
        self.moody.refuse = 0
        left = self.sent - self.acked - self.tried
        seen: set[bytes] = set()
        for _ in range(60):
            self.harness.tick(20_000)
            for one in self.harness.pop(invisible_ms=10_000):
                seen.add(one.body)
                self.harness.client().ask(ack(one))
        assert left <= seen, left - seen
        assert not self.harness.pop()
        self.harness.tick()
        assert self.harness.node.pop.statistics()["open"] == 0


class Merging(Slowly):
    """The same with young check points in memory."""

    merge = True


few = settings(
    max_examples=examples(25), stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
Slowly.TestCase.settings = few
Merging.TestCase.settings = few
TestSlowly = Slowly.TestCase
TestMerging = Merging.TestCase
