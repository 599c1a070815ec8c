"""Check points come due on the monotonic clock, and progress never passes an open one."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.tiers import examples

from epochmq.broker.pop import revive as module
from epochmq.broker.pop.pop_records import CheckPoint, Key
from epochmq.broker.pop.revive import (
    BACK_OFF_S,
    COPY_BEHIND,
    COPY_LEFT_MS,
    RETRY_MAX_MS,
    RETRY_MS,
    MessageState,
    Revive,
)

WALL = 1_700_000_000_000


def point(
    start: int = 0, count: int = 2, pop: int = 0, ms: int = 1_000, bits: int = 0
) -> CheckPoint:
    return CheckPoint(
        topic="T", group="G", start=start, pop_time=WALL + pop, invisible_time=ms,
        deltas=list(range(count)), count=count, bits=bits, broker_name="b",
    )  # fmt: skip


def read(core: Revive, found: CheckPoint, now: int = 0, wall: int | None = None) -> None:
    core.add_check_point(found, core.position, now, WALL + now if wall is None else wall)
    core.position += 1


def acks(core: Revive, found: CheckPoint, *offsets: int) -> None:
    core.add_acks(found.key, offsets)
    core.position += 1


def test_what_is_acknowledged_is_never_due() -> None:
    core, one = Revive(), point()
    assert core.check_point(one.key) is None
    read(core, one)
    assert core.check_point(one.key) is one
    assert (core.progress, core.next_deadline()) == (0, 1_000)
    acks(core, one, 0)
    assert core.seen(one.key, 0) is MessageState.ACKED
    assert core.seen(one.key, 1) is MessageState.OPEN
    assert core.seen(one.key, 2) is MessageState.FOREIGN
    acks(core, one, 7, 1)
    assert core.check_point(one.key) is None
    assert core.seen(one.key, 0) is MessageState.UNKNOWN
    assert (core.progress, core.next_deadline(), len(core)) == (3, None, 0)
    assert core.due(9_999, 9) == []
    acks(core, one, 1)
    assert core.statistics() == {
        "open": 0, "position": 4, "progress": 4, "revived": 0, "orphans": 1,
    }  # fmt: skip


def test_where_it_is_known_how_long_it_hides_the_wall_clock_says_nothing() -> None:
    core, one = Revive(), point()
    core.add_check_point(one, 0, 300, WALL - 60_000, 1_000)
    assert core.next_deadline() == 1_000
    (entry,) = core.due(1_000, 9)
    core.add_check_point(one, 1, 1_200, WALL, 5_000)  # a copy of it
    core.delivered(entry, 3)
    assert core.next_deadline() is None


def test_two_pops_of_one_millisecond_are_one() -> None:
    """From the same message on, by a clock that was set back: the second one's were forgotten."""
    core, one, two = Revive(), point(count=1), point(count=3, ms=5_000)
    read(core, one)
    read(core, two)
    acks(core, two, 1)
    assert [core.seen(one.key, at) for at in range(4)] == [
        MessageState.OPEN, MessageState.ACKED, MessageState.OPEN, MessageState.FOREIGN,
    ]  # fmt: skip
    assert core.due(4_999, 9) == []
    (entry,) = core.due(5_000, 9)
    assert entry.open_messages() == [(0, 0), (2, 2)]
    core.failed(entry, 1, 5_000, hard=False)
    assert core.progress == 0
    (entry,) = core.due(5_000 + RETRY_MS, 9)
    core.delivered(entry, 4)
    assert (core.progress, len(core)) == (3, 0)


def test_a_second_one_comes_while_the_first_is_delivered() -> None:
    core, one, two = Revive(), point(count=1), point(count=2, ms=5_000)
    read(core, one)
    (entry,) = core.due(1_000, 9)
    read(core, two, 1_000)
    assert core.next_deadline() is None
    core.delivered(entry, 1)
    assert core.next_deadline() == 5_000
    (entry,) = core.due(5_000, 9)
    assert entry.open_messages() == [(1, 1)]


def test_what_is_acknowledged_of_both_is_over() -> None:
    core, one, two = Revive(), point(count=2), point(count=1)
    read(core, one)
    acks(core, one, 1)
    read(core, two)
    acks(core, two, 0)
    assert (core.progress, len(core)) == (4, 0)


def test_a_check_point_that_replaces_two_is_not_copied() -> None:
    core, one, two = Revive(), point(count=1, ms=60_000), point(count=2, ms=60_000)
    read(core, one)
    core.position += COPY_BEHIND
    copied = core.copy(0)
    assert copied is not None
    read(core, two)
    core.position += COPY_BEHIND
    read(core, copied)
    assert core.copy(0) is None
    assert (core.progress, core.next_deadline()) == (0, 60_000)
    acks(core, one, 0, 1)
    assert core.progress == core.position  # behind the copy, which knows of nothing


def test_a_plan_that_came_to_nothing_is_passed_over() -> None:
    core, one, two = Revive(), point(), point(start=10)
    read(core, one)
    read(core, two)
    acks(core, one, 0, 1)
    assert [entry.check_point.start for entry in core.due(9_999, 9)] == [10]


def test_what_is_not_is_delivered_when_its_time_is_over() -> None:
    core, one = Revive(), point(count=3)
    read(core, one)
    acks(core, one, 1)
    assert core.due(999, 9) == []
    (entry,) = core.due(1_000, 9)
    assert entry.open_messages() == [(0, 0), (2, 2)]
    assert core.seen(one.key, 0) is MessageState.DELIVERED
    assert core.due(9_999, 9) == []
    core.delivered(entry, 0b101)
    assert (core.progress, core.statistics()["revived"]) == (2, 2)


def test_a_part_that_was_delivered_is_not_delivered_again() -> None:
    core = Revive()
    read(core, point(count=3))
    (entry,) = core.due(1_000, 9)
    core.delivered(entry, 0b001)
    (entry,) = core.due(1_000, 9)
    assert entry.open_messages() == [(1, 1), (2, 2)]
    core.failed(entry, 0b010, 1_000, hard=False)
    assert core.seen(entry.check_point.key, 1) is MessageState.DELIVERED
    (entry,) = core.due(1_000 + RETRY_MS, 9)
    assert entry.open_messages() == [(2, 2)]
    core.failed(entry, 0b100, 1_000, hard=False)
    assert core.progress == 1


def test_an_acknowledgement_may_come_while_it_is_delivered() -> None:
    core, one = Revive(), point(count=1)
    read(core, one)
    (entry,) = core.due(1_000, 9)
    acks(core, one, 0)
    core.delivered(entry, 1)
    assert (core.progress, len(core)) == (2, 0)


def test_pauses_after_failures() -> None:
    core = Revive()
    read(core, point())
    now = 1_000
    for failure in range(6):
        (entry,) = core.due(now, 9)
        core.failed(entry, 0, now, hard=False)
        pause = min(RETRY_MS << failure, RETRY_MAX_MS)
        assert core.next_deadline() == now + pause
        now += pause
    (entry,) = core.due(now, 9)
    core.delivered(entry, 0)
    for pause_s in (*BACK_OFF_S, BACK_OFF_S[-1]):
        (entry,) = core.due(now, 9)
        core.failed(entry, 0, now, hard=True)
        now += pause_s * 1_000
        assert core.next_deadline() == now


def test_the_wall_clock_neither_hurries_nor_delays() -> None:
    core = Revive()
    read(core, point(start=0), now=0, wall=WALL - 3_600_000)
    read(core, point(start=10), now=0, wall=WALL + 3_600_000)
    read(core, point(start=20, ms=-5), now=7)
    assert [entry.check_point.start for entry in core.due(999, 9)] == [10, 20]
    assert [entry.check_point.start for entry in core.due(1_000, 9)] == [0]


def test_a_tick_is_bounded() -> None:
    core = Revive()
    for start in range(0, 50, 10):
        read(core, point(start))
    assert len(core.due(1_000, 2)) == 2
    assert len(core.due(1_000, 9)) == 3


def test_one_that_is_done_already_is_not_kept() -> None:
    core = Revive()
    read(core, point(bits=0b11))
    assert (len(core), core.progress) == (0, 1)


def far_behind(core: Revive, one: CheckPoint) -> None:
    read(core, one)
    core.position += COPY_BEHIND


def test_one_that_stays_long_is_copied() -> None:
    core, one = Revive(), point(ms=60_000)
    assert core.copy(0) is None
    far_behind(core, one)
    acks(core, one, 0)
    assert core.copy(60_000 - COPY_LEFT_MS) is None
    copied = core.copy(0)
    assert copied is not None
    assert copied.done == 0b01
    assert core.copy(0) is None
    core.copy_failed(copied, core.position)
    copied = core.copy(0)
    assert copied is not None
    place = core.position
    read(core, copied, now=30_000)
    assert core.progress == place
    assert core.next_deadline() == 60_000
    core.copy_failed(point(99), 0)
    acks(core, one, 1)
    assert core.progress == core.position


def test_a_copy_that_knows_less_takes_no_place() -> None:
    core, one = Revive(), point(ms=60_000)
    far_behind(core, one)
    copied = core.copy(0)
    assert copied is not None
    acks(core, one, 0)  # lies before the copy, which does not know of it
    read(core, copied)
    assert core.progress == 0
    again = core.copy(0)
    assert again is not None
    assert again.done == 0b01


def test_a_copy_that_knows_less_holds_progress_until_nothing_before_it_is_open() -> None:
    core, one, other = Revive(), point(ms=60_000), point(start=9, ms=60_000)
    far_behind(core, one)
    read(core, other)
    copied = core.copy(0)
    assert copied is not None
    acks(core, one, 0)
    read(core, copied)
    acks(core, one, 1)
    assert core.progress == 0
    acks(core, other, 9, 10)
    assert core.progress == core.position


def test_a_copy_may_know_more() -> None:
    core, one = Revive(), point()
    read(core, one)
    read(core, point(bits=0b11))
    assert (len(core), core.progress) == (0, 2)


def test_a_copy_behind_the_last_acknowledgement_opens_nothing() -> None:
    core, one = Revive(), point(ms=60_000)
    far_behind(core, one)
    copied = core.copy(0)
    assert copied is not None
    acks(core, one, 0, 1)
    assert (core.progress, core.next_deadline(), core.copy(0)) == (0, None, None)
    read(core, copied)
    assert (core.progress, core.next_deadline(), len(core)) == (core.position, None, 0)


def test_a_copy_that_was_not_kept_holds_nothing() -> None:
    core, one = Revive(), point(ms=60_000)
    far_behind(core, one)
    copied = core.copy(0)
    assert copied is not None
    acks(core, one, 0, 1)
    core.copy_failed(copied, core.position)
    assert core.copy(0) is None
    assert (core.progress, len(core)) == (core.position, 0)


def test_a_copy_that_was_not_held_in_time_may_come() -> None:
    core, one = Revive(), point(ms=60_000)
    far_behind(core, one)
    copied = core.copy(0)
    assert copied is not None
    acks(core, one, 0, 1)
    core.copy_failed(copied, core.position + 1)
    assert core.copy(0) is None
    assert (core.progress, len(core)) == (0, 1)
    read(core, copied)
    assert core.copy(0) is None
    assert (core.progress, core.next_deadline(), len(core)) == (core.position, None, 0)


def test_a_copy_that_was_not_held_in_time_may_have_come() -> None:
    """Found by the simulator: the next copy counted as lost, there was a third one, and it opened
    what was over by then (popping 5019)."""
    core, one = Revive(), point(ms=60_000)
    far_behind(core, one)
    copied = core.copy(0)
    assert copied is not None
    acks(core, one, 0)
    read(core, copied)
    another = core.copy(0)
    assert another is not None
    core.copy_failed(copied, core.position)
    assert core.copy(0) is None
    acks(core, one, 1)
    read(core, another)
    assert (core.next_deadline(), len(core)) == (None, 0)


def test_what_was_handed_out_again_is_remembered_for_some_time(monkeypatch) -> None:
    monkeypatch.setattr(module, "DELIVERED_KEPT_MAX", 1)
    core, one, other = Revive(), point(), point(start=9)
    for found in (one, other):
        read(core, found)
    acks(core, one, 1)
    for entry in core.due(1_000, 9):
        core.delivered(entry, 0b11 & ~entry.acked)
        assert core.seen(entry.check_point.key, entry.offsets[0]) is MessageState.DELIVERED
    assert core.seen(one.key, 0) is MessageState.UNKNOWN
    assert core.seen(other.key, 9) is MessageState.DELIVERED


def test_too_late_is_too_late_though_the_log_says_otherwise() -> None:
    core, one = Revive(), point()
    read(core, one)
    (entry,) = core.due(1_000, 9)
    acks(core, one, 1)
    assert core.seen(one.key, 1) is MessageState.ACKED
    core.failed(entry, 0b01, 1_000, hard=False)
    assert core.seen(one.key, 0) is MessageState.DELIVERED


def test_an_acknowledgement_may_be_kept_before_its_check_point_is_read() -> None:
    """Found by the simulator: the log became readable up to between both (popping 3096)."""
    core, one, other = Revive(), point(), point(start=9)
    core.add_pending_ack(one.key, [1])
    core.add_pending_ack(other.key, [9])
    assert core.seen(one.key, 0) is MessageState.UNKNOWN
    assert core.seen(one.key, 1) is MessageState.ACKED
    core.add_pending_ack(other.key, [10])
    for found in (one, other):
        read(core, found)
    (entry,) = core.due(1_000, 9)
    assert entry.open_messages() == [(0, 0)]
    acks(core, one, 1)
    acks(core, other, 9)
    acks(core, other, 10)
    assert core.seen(other.key, 10) is MessageState.UNKNOWN
    core.delivered(entry, 1)
    core.add_pending_ack(one.key, [0])
    assert (len(core), core.progress) == (0, core.position)


def test_what_is_kept_of_check_points_that_are_not_read_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 1)
    core = Revive()
    for start in (0, 9):
        core.add_pending_ack(point(start).key, [start])
    core.add_pending_ack(point().key, [1])
    assert [core.seen(point(start).key, start) for start in (0, 9)] == [
        MessageState.ACKED,
        MessageState.UNKNOWN,
    ]
    assert core.seen(point().key, 1) is MessageState.ACKED


def test_a_copy_of_a_former_life_opens_nothing() -> None:
    one = point(ms=60_000)
    core = Revive(0, end=COPY_BEHIND + 3)
    far_behind(core, one)
    assert core.copy(0) is None
    acks(core, one, 0, 1)
    assert (core.progress, len(core)) == (0, 0)
    read(core, one)
    assert (core.progress, len(core)) == (core.position, 0)
    read(core, one)  # another message's, by now
    assert len(core) == 1


def test_what_is_over_does_not_fill_the_plan() -> None:
    core = Revive()
    for start in range(0, 5_000, 10):
        one = point(start, pop=start)
        read(core, one)
        acks(core, one, start, start + 1)
    assert len(core._due) < 100


@settings(max_examples=examples(60), stateful_step_count=60)
class Slowly(RuleBasedStateMachine):
    """The whole log is kept; a crash begins again at the progress. Nothing open is ever lost, and
    nothing that was acknowledged in time is delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.behind, module.COPY_BEHIND = module.COPY_BEHIND, 2
        self.log: list[tuple[str, CheckPoint, list[int]]] = []
        self.core = Revive()
        self.saved = 0
        self.there = 0
        self.now = 0
        self.step = 0
        self.points: list[CheckPoint] = []
        self.open: dict[tuple[Key, int], int] = {}
        self.acked: set[tuple[Key, int]] = set()
        self.told: set[tuple[Key, int]] = set()
        self.out: list[module.OpenCheckPoint] = []

    def wall(self) -> int:
        return WALL + self.now + self.step

    @rule(count=st.integers(1, 3), ms=st.sampled_from([500, 2_000, 60_000]), soon=st.booleans())
    def pop(self, count: int, ms: int, soon: bool) -> None:
        start = 10 * len(self.points)
        one = point(start, count, self.now + self.step, ms)
        self.points.append(one)
        self.log.append(("ck", one, []))
        self.open |= {(one.key, at): self.now + ms for at in one.offsets()}
        self.read(9 * soon)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), told=st.booleans())
    def ack(self, data: st.DataObject, told: bool) -> None:
        key, at = data.draw(st.sampled_from(sorted(self.open)))
        one = next(point for point in self.points if point.key == key)
        if self.core.seen(key, at) is MessageState.DELIVERED:
            return
        self.log.append(("ack", one, [at]))
        if told:
            self.core.add_pending_ack(key, [at])
            self.told.add((key, at))
        del self.open[key, at]
        self.acked.add((key, at))

    @rule(most=st.integers(1, 9))
    def read(self, most: int) -> None:
        for kind, one, offsets in self.log[self.core.position :][:most]:
            if kind == "ck":
                self.core.add_check_point(one, self.core.position, self.now, self.wall())
            else:
                self.core.add_acks(one.key, offsets)
            self.core.position += 1

    @rule(ms=st.integers(0, 3_000))
    def pass_time(self, ms: int) -> None:
        self.now += ms

    @rule(ms=st.integers(-5_000, 5_000))
    def step_the_clock(self, ms: int) -> None:
        self.step += ms

    @rule(most=st.sampled_from([0, 1, 1, 2, 9]))
    def begin(self, most: int) -> None:
        """What was there at the start is readable; what came since becomes it by and by."""
        self.read(max(self.there - self.core.position, 0) + most)
        done = self.acked if self.core.position == len(self.log) else self.told
        for entry in self.core.due(self.now, 2):
            key = entry.check_point.key
            assert not done.intersection((key, at) for _, at in entry.open_messages())
            self.out.append(entry)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), hard=st.booleans())
    def end(self, data: st.DataObject, hard: bool) -> None:
        entry = self.out.pop(0)
        key = entry.check_point.key
        kept = 0
        every = True
        for bit, at in entry.open_messages():
            if not data.draw(st.booleans()):
                every = False
                continue
            kept |= 1 << bit
            self.open.pop((key, at), None)
        if every:
            self.core.delivered(entry, kept)
        else:
            self.core.failed(entry, kept, self.now, hard=hard)

    @rule()
    def copy(self) -> None:
        copied = self.core.copy(self.now)
        if copied is not None:
            self.log.append(("ck", copied, []))

    @rule()
    def save(self) -> None:
        self.saved = self.core.progress

    @rule()
    def crash(self) -> None:
        self.there = len(self.log)
        self.core = Revive(self.saved, self.there)
        self.out = []

    @invariant()
    def progress_is_behind_all_that_is_open(self) -> None:
        progress = self.core.progress
        assert progress <= self.core.position
        behind = [one for kind, one, _ in self.log[progress:] if kind == "ck"]
        for key, at in self.open:
            points = [one for one in behind if one.key == key]
            assert points, "an open message that nobody would deliver after a crash"
            bit = 1 << points[0].offsets().index(at)
            assert not any(one.done & bit for one in points)

    def teardown(self) -> None:
        """After a crash all that is left open is delivered, nothing acknowledged is."""
        try:
            self.look_back()
        finally:
            module.COPY_BEHIND = self.behind

    def look_back(self) -> None:
        self.crash()
        self.read(len(self.log))
        self.now += 10_000_000
        seen = set()
        for entry in self.core.due(self.now, 10_000):
            seen |= {(entry.check_point.key, at) for _, at in entry.open_messages()}
        assert set(self.open) <= seen
        assert not self.acked & seen


TestSlowly = Slowly.TestCase
