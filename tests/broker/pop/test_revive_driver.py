"""Reviving through a whole broker: retry topics, progress, failures, restarts, other brokers."""

import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.become import become
from tests.broker.broker_harness import send
from tests.broker.pop_harness import PopHarness, ack, pop
from tests.broker.slow import Slow

from epochmq.base import limits
from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.pop import revive as core
from epochmq.broker.pop.pop_records import REVIVE_GROUP, CheckPoint, check_point_draft
from epochmq.broker.pop.revive_driver import Came
from epochmq.broker.requests.topic_handlers import delete_topic
from epochmq.broker.serving.roles import Role
from epochmq.model.sys_flag import COMPRESSED
from epochmq.store.draft import Draft
from epochmq.store.read import GetStatus, ReadResult
from epochmq.store.store import Store

RETRY = "%RETRY%G_T"
REVIVE = "rmq_sys_REVIVE_LOG_c"


def progress(harness: PopHarness) -> list[int]:
    return [harness.node.offsets.get(REVIVE_GROUP, REVIVE, queue) for queue in range(8)]


def test_what_nobody_acknowledges_comes_back() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b", TAGS="red", KEYS="k")
    first, second = harness.pop(invisible_ms=5_000)
    assert harness.pop() == []
    harness.ack(first)
    harness.tick(4_999)
    assert harness.stored(RETRY) == []
    harness.tick(1)
    (copy,) = harness.stored(RETRY)
    assert (copy.body, copy.reconsume_times) == (b"b", 1)
    assert copy.properties["1ST_POP_TIME"] == second.handle.split()[1]
    assert (copy.tags, copy.keys) == ("red", ("k",))
    (again,) = harness.pop(invisible_ms=5_000)
    assert (again.body, again.topic) == (b"b", RETRY)
    harness.tick(5_000)
    assert harness.stored(RETRY)[-1].reconsume_times == 2
    assert harness.stored(RETRY)[-1].properties["1ST_POP_TIME"] == second.handle.split()[1]
    (again,) = harness.pop()
    harness.ack(again)
    harness.tick(100_000)
    assert len(harness.stored(RETRY)) == 2
    assert harness.pop() == []
    assert harness.node.pop.statistics()["open"] == 0


def test_a_compressed_body_comes_back_as_it_was_stored() -> None:
    """rocketmq#5402: there it came back plain, and flagged as compressed."""
    harness = PopHarness()
    data = zlib.compress(b"a" * 100)
    assert harness.client().ask(send(data, sysFlag=COMPRESSED)).code == 0
    harness.pop(invisible_ms=5_000)
    harness.tick(5_000)
    (copy,) = harness.stored(RETRY)
    assert (copy.body, copy.sys_flag & COMPRESSED) == (data, COMPRESSED)


def test_retry_topics_of_the_second_generation() -> None:
    harness = PopHarness(enable_retry_topic_v2=True)
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.tick(1_000)
    assert [message.body for message in harness.stored("%RETRY%G+T")] == [b"a"]
    (again,) = harness.pop()
    assert again.handle.split()[4] == "2"
    harness.ack(again)


def test_the_progress_is_the_last_record_that_is_done_with() -> None:
    harness = PopHarness()
    harness.put(b"a")
    (one,) = harness.pop(invisible_ms=1_000)
    queue = int(one.handle.split()[3])
    harness.tick()
    assert progress(harness)[queue] == -1
    harness.ack(one)
    harness.tick()
    assert progress(harness)[queue] == 1


def test_nothing_is_delivered_before_the_queue_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = PopHarness()
    harness.put(b"a")
    (one,) = harness.pop(invisible_ms=1_000)
    harness.ack(one)
    monkeypatch.setattr("epochmq.broker.pop.revive_driver.READ_COUNT", 1)
    harness.node.pop.role_changed()  # reads from the beginning again
    for _ in range(3):
        harness.tick(1_000)
    assert harness.stored(RETRY) == []


class Moody:
    """An outlet's route that refuses what it is told to."""

    def __init__(self, harness: PopHarness, *answers: WriteOutcome) -> None:
        self.inner = harness.node.internal_writer.route
        self.answers = list(answers)

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Any) -> None:
        assert origin is Origin.REVIVE
        outcomes = []
        for draft in drafts:
            outcome = self.answers.pop(0) if self.answers else WriteOutcome.STORED
            if outcome is WriteOutcome.STORED:
                self.inner.put([draft], origin, wall, lambda _: None)
            outcomes.append(outcome)
        done(outcomes)


def test_a_refused_redelivery_is_repeated_and_not_skipped() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b")
    harness.pop(invisible_ms=1_000)
    harness.tick()
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.STORED, WriteOutcome.LATER)
    harness.tick(1_000)
    assert [message.body for message in harness.stored(RETRY)] == [b"a"]
    harness.tick(core.RETRY_MS - 1)
    assert len(harness.stored(RETRY)) == 1
    harness.tick(1)
    assert [message.body for message in harness.stored(RETRY)] == [b"a", b"b"]
    assert max(progress(harness)) == 0


def test_what_slow_replicas_do_not_hold_in_time_is_not_put_again() -> None:
    """What is in the log is there: written once more it would be consumed twice (ADR 0058)."""
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.tick()
    slow = Slow(harness)
    harness.tick(1_000)
    for _ in range(3):
        assert slow.answer(held=False) == 1
        harness.tick(core.RETRY_MAX_MS)
    assert slow.answer(held=True) == 1
    harness.tick(core.RETRY_MAX_MS)
    assert [message.body for message in harness.stored(RETRY)] == [b"a"]
    assert slow.asked == []
    assert max(progress(harness)) == 0


def test_in_another_role_it_is_put_again() -> None:
    """Who is master next does not know of what was cut."""
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.tick()
    slow = Slow(harness)
    harness.tick(1_000)
    become(harness.node, Role.FENCED)
    slow.answer(held=True)
    harness.tick()
    become(harness.node, Role.MASTER)
    harness.tick()
    assert [message.body for message in harness.stored(RETRY)] == [b"a", b"a"]


def test_an_illegal_one_is_tried_much_later() -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.tick()
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.ILLEGAL)
    harness.tick(1_000)
    harness.tick(9_999)
    assert harness.stored(RETRY) == []
    harness.tick(1)
    assert len(harness.stored(RETRY)) == 1


def restarted(harness: PopHarness) -> PopHarness:
    """The process is killed; what was saved of the offsets is what the caller saved."""
    offsets = harness.node.offsets.content()
    harness.store.close(harness.clock.wall)
    other = PopHarness(disk=harness.disk)
    other.clock.now, other.clock.wall = 77, harness.clock.wall
    other.node.offsets.adopt(offsets, whole=True)
    other.node.pop.role_changed()
    other.tick()
    return other


def test_after_a_restart_all_that_was_out_is_known() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b", b"c")
    first, second, _ = harness.pop(invisible_ms=5_000)
    harness.ack(second)
    harness.tick(1_000)
    other = restarted(harness)
    assert other.pop() == []
    assert other.client().ask(ack(first)).code == 0
    other.tick(3_999)
    assert other.stored(RETRY) == []
    other.tick(1)
    assert [message.body for message in other.stored(RETRY)] == [b"c"]


def test_a_message_that_retention_took_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.node.topics.delete("T", harness.clock.wall)
    harness.store.delete_topic("T")
    harness.tick(1_000)
    assert harness.stored(RETRY) == []
    assert max(progress(harness)) == 0
    assert "is gone" in caplog.text


def write(harness: PopHarness, **more: Any) -> None:
    """A check point that no pop of ours made."""
    fields: dict[str, Any] = {
        "topic": "T", "group": "G", "pop_time": harness.clock.wall, "invisible_time": 1_000,
        "deltas": [0], "count": 1, "broker_name": "b",
    }  # fmt: skip
    draft = check_point_draft(CheckPoint(**(fields | more)), REVIVE, 0, harness.clock.wall)
    harness.store.append([draft], harness.clock.wall)


def test_of_two_pops_of_one_millisecond_everything_comes_back() -> None:
    """After a crash that forgot the group's offset, by a clock that was set back."""
    harness = PopHarness()
    harness.put(b"a")
    write(harness)
    harness.put(b"b")
    write(harness, deltas=[0, 1], count=2)
    harness.tick(1_000)
    harness.tick(1_000)
    assert [one.body for one in harness.stored(RETRY)] == [b"a", b"b"]
    assert progress(harness)[0] == 1


def test_one_that_cannot_be_read_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = PopHarness()
    harness.put(b"a")
    write(harness)
    harness.tick()
    with monkeypatch.context() as patch:
        patch.setattr(harness.node.pop.driver, "_store", _Blind(harness.store))
        harness.tick(1_000)
    assert "cannot be read" in caplog.text
    assert progress(harness)[0] == -1
    harness.tick(10_000)
    assert len(harness.stored(RETRY)) == 1
    assert progress(harness)[0] == 0


class _Blind:
    """A store that cannot read the topic's messages for now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.queue_bounds = store.queue_bounds

    def read_queue(self, topic: str, *rest: int) -> ReadResult:
        found = self._store.read_queue(topic, *rest)
        if topic != "T":
            return found
        return replace(found, status=GetStatus.OFFSET_FOUND_NULL, chunks=[], count=0)


def recreate_topic(harness: PopHarness) -> None:
    config = harness.node.topics.get("T")
    delete_topic(harness.node, "T")
    harness.node.topics.put(config, harness.clock.wall)


@pytest.mark.parametrize("buffers", [False, True])
def test_what_was_out_of_a_topic_that_is_created_again_does_not_come(buffers: bool) -> None:
    """rocketmq#8479: neither is it looked for without end, nor is another message handed out in
    its place, nor does the group go past what is sent then."""
    harness = PopHarness(enable_pop_buffer_merge=buffers)
    harness.put(b"a", b"b", b"c")
    harness.pop(invisible_ms=5_000)
    recreate_topic(harness)
    harness.put(b"x", b"y")
    harness.tick()
    assert [one.body for one in harness.pop(count=1, invisible_ms=90_000)] == [b"x"]
    harness.tick(5_000)
    harness.tick(5_000)
    assert harness.stored(RETRY) == []
    assert [one.body for one in harness.pop(invisible_ms=90_000)] == [b"y"]
    harness.tick(90_000)
    harness.tick()
    assert [message.body for message in harness.stored(RETRY)] == [b"x", b"y"]


def test_another_brokers_check_point_is_kept() -> None:
    harness = PopHarness()
    harness.put(b"a")
    write(harness, broker_name="other")
    harness.tick()
    harness.tick(1_000)
    assert harness.stored(RETRY) == []
    assert len(harness.node.pop.driver) == 1


class Afar:
    """Another group's messages, told when the test says so."""

    def __init__(self, harness: PopHarness) -> None:
        self.asked: list[tuple[CheckPoint, Sequence[int], Came]] = []
        harness.node.pop.driver.fetch_from(self)

    def __call__(self, found: CheckPoint, offsets: Sequence[int], came: Came) -> None:
        self.asked.append((found, offsets, came))


def test_another_groups_messages_are_fetched_and_put_into_the_own_retry_topic() -> None:
    """RIP-32: a slave that acted for its master gave the check point here."""
    harness = PopHarness()
    harness.put(b"mine", b"own")
    remote_fetch = Afar(harness)
    write(harness, broker_name="other", deltas=[0, 1, 2], count=3)
    harness.tick()
    harness.tick(1_000)
    ((found, offsets, came),) = remote_fetch.asked
    assert (found.broker_name, list(offsets)) == ("other", [0, 1, 2])
    there, _ = harness.stored("T")
    there.body = b"theirs"
    came({0: there, 1: None})  # the third could not be told
    assert [message.body for message in harness.stored(RETRY)] == [b"theirs"]
    assert progress(harness)[0] == -1
    harness.tick(10_000)
    (_, offsets, came) = remote_fetch.asked[1]
    assert list(offsets) == [2]
    came({2: None})
    harness.tick()
    assert progress(harness)[0] == 0


def test_nobody_answers_for_another_group(caplog: pytest.LogCaptureFixture) -> None:
    harness = PopHarness()
    remote_fetch = Afar(harness)
    write(harness, broker_name="other")
    harness.tick()
    harness.tick(1_000)
    remote_fetch.asked[0][2](None)
    harness.tick(1_000)
    assert len(remote_fetch.asked) == 2
    become(harness.node, Role.SLAVE)
    become(harness.node, Role.MASTER)
    harness.tick()
    remote_fetch.asked[1][2](None)  # of another time
    assert progress(harness)[0] == -1


def test_records_that_say_nothing_are_passed(caplog: pytest.LogCaptureFixture) -> None:
    harness = PopHarness()
    harness.store.append([Draft(REVIVE, 0, b"?", b"TAGS\x01ck")], harness.clock.wall)
    harness.tick()
    assert "cannot be decoded" in caplog.text
    assert progress(harness)[0] == 0


def test_no_room_for_a_retry_topic(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.tick()
    monkeypatch.setattr(limits, "TOPICS_MAX", 1)
    harness.tick(1_000)
    assert "cannot revive" in caplog.text
    monkeypatch.undo()
    harness.tick(10_000)
    assert len(harness.stored(RETRY)) == 1


def test_reading_stops_at_the_limit_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POP_CHECK_POINTS_MAX", 2)
    harness = PopHarness(revive_queue_num=8)
    harness.put(b"a")
    for start in range(5):
        write(harness, pop_time=harness.clock.wall + start, deltas=[0])
    monkeypatch.setattr("epochmq.broker.pop.revive_driver.READ_COUNT", 1)
    for _ in range(9):
        harness.tick()
    assert len(harness.node.pop.driver.queues[0]) == 2
    for _ in range(9):
        harness.tick(1_000)
    assert len(harness.stored(RETRY)) == 5


def test_a_position_outside_the_queue_is_brought_back() -> None:
    harness = PopHarness()
    harness.node.offsets.commit(REVIVE_GROUP, REVIVE, 0, 50)
    harness.node.pop.role_changed()
    harness.tick()
    assert harness.node.pop.driver.queues[0].position == 0
    harness.put(b"a")
    harness.pop(invisible_ms=1_000)
    harness.node.pop.driver.queues[0].position = 9
    harness.tick()
    harness.tick(1_000)
    assert harness.node.pop.driver.queues[0].position <= 1


def test_a_long_one_is_copied_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "COPY_BEHIND", 2)
    harness = PopHarness()
    harness.put(b"a", *(b"x" for _ in range(40)))
    (one,) = harness.pop(count=1, invisible_ms=60_000)
    queue = int(one.handle.split()[3])
    for _ in range(32):
        harness.ack(*harness.pop(count=1))
    harness.tick()
    harness.tick()
    assert progress(harness)[queue] > 2
    assert harness.client().ask(ack(one)).code == 0
    harness.tick()
    harness.tick(60_000)
    assert harness.stored(RETRY) == []


def test_a_copy_that_was_not_kept_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "COPY_BEHIND", 0)
    harness = PopHarness()
    harness.put(b"a")
    harness.pop(count=1, invisible_ms=60_000)
    route = harness.node.internal_writer.route
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.LATER)
    harness.tick()
    harness.node.internal_writer.route = route
    harness.tick()
    harness.tick()
    assert harness.node.pop.statistics()["position"] == 2


def test_deadlines() -> None:
    harness = PopHarness()
    driver = harness.node.pop.driver
    assert driver.next_deadline(harness.clock.now) is None
    harness.put(b"a")
    harness.client().ask(pop(invisible_ms=1_000))
    assert driver.next_deadline(harness.clock.now) == harness.clock.now
    harness.tick()
    assert driver.next_deadline(harness.clock.now) == harness.clock.now + 1_000


def test_a_table_of_offsets_that_is_full_holds_the_progress(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = PopHarness()
    harness.put(b"a")
    (one,) = harness.pop()
    harness.ack(one)
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 1)
    harness.tick()
    assert "is not stored" in caplog.text
    monkeypatch.undo()
    harness.tick()
    assert max(progress(harness)) == 1
