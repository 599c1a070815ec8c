"""The way back into a group: dialogues, and histories against a small world of members."""

from collections.abc import Mapping

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.group.name_servers_view import NameServersVerdict
from epochmq.broker.group.pre_online import (
    ANSWER_LOOK_MS,
    CALL_MS,
    DIVERGED_MS,
    LOOK_MS,
    RETRY_MAX_MS,
    RETRY_MS,
    WAIT_MAX_MS,
    AskAgain,
    GoOnline,
    PreOnline,
    PreOnlineCall,
    Step,
)

ONE, TWO = "10.0.0.1:10911", "10.0.0.2:10911"
HOLD, REGISTER = 5_000, 10_000
OTHERS, ALONE, UNKNOWN = (
    NameServersVerdict.OTHERS,
    NameServersVerdict.ALONE,
    NameServersVerdict.UNKNOWN,
)


class Way:
    """A core with its clock; `group` is what name servers say."""

    def __init__(self, own_id: int = 0, group: Mapping[int, str] | None = None) -> None:
        self.core = PreOnline(own_id, HOLD, REGISTER)
        self.group = {1: ONE} if group is None else dict(group)
        self.verdict = OTHERS if self.group else ALONE
        self.is_copied = False
        self.asked_ms: int | None = None
        self.now = 1_000

    def tick(self, later_ms: int = 0) -> PreOnlineCall | GoOnline | AskAgain | None:
        self.now += later_ms
        effects = self.core.tick(
            self.now,
            self.verdict,
            self.group,
            is_copied=self.is_copied,
            asked_ms=self.asked_ms,
        )
        assert len(effects) <= 1
        return effects[0] if effects else None

    def call(self, later_ms: int = 0) -> PreOnlineCall:
        effect = self.tick(later_ms)
        assert isinstance(effect, PreOnlineCall), self.core.state
        return effect

    def answer(self) -> None:
        """What is being done, if anything, goes well."""
        if self.core._calling is not None:
            self.core.done(self.core._calling, self.now)

    def until(self, step: Step) -> PreOnlineCall:
        """All goes well until this step is due."""
        self.answer()
        while (call := self.call()).step is not step:
            self.core.done(call, self.now)
        return call

    def to_the_end(self) -> list[tuple[Step, int]]:
        """All goes well; what was done."""
        steps = []
        self.answer()
        while isinstance(effect := self.tick(), PreOnlineCall):
            steps.append((effect.step, effect.member))
            self.core.done(effect, self.now)
        assert isinstance(effect, GoOnline)
        return steps


def test_members_step_down_only_when_all_else_has_worked() -> None:
    """H4, H5: what is taken after that is all there is."""
    way = Way(group={2: TWO, 1: ONE})
    prepared = [Step.COMPARE, Step.PREPARE, Step.LINK, Step.PULL]
    last = [Step.HAND_OVER, Step.PULL_AGAIN]
    assert way.to_the_end() == [
        *((step, 1) for step in prepared),
        *((step, 2) for step in prepared),
        *((step, 1) for step in last),
        *((step, 2) for step in last),
    ]
    assert way.core.online
    assert way.core.state == "ONLINE"
    assert way.tick(100_000) is None
    assert way.core.next_deadline() is None


def test_a_slave_without_a_master_takes_what_other_slaves_did() -> None:
    """INV-29: one of them acts as master, and stops when a smaller id is there again."""
    way = Way(own_id=1, group={3: ONE, 2: TWO})
    assert way.to_the_end() == [(Step.PULL, 2), (Step.PULL, 3)]


def test_a_master_that_comes_meanwhile_is_copied_from() -> None:
    way = Way(own_id=1, group={2: TWO})
    way.until(Step.PULL)
    way.group = {0: ONE, 2: TWO}
    assert way.tick() is None
    assert way.call(RETRY_MS).step is Step.ASK
    assert way.to_the_end()


def test_waiting_for_the_name_servers_is_no_busy_loop() -> None:
    """H25: there is nothing to do before they say something."""
    way = Way()
    way.verdict = UNKNOWN
    assert way.tick() is None
    assert way.core.next_deadline() == way.now + LOOK_MS
    way.verdict = OTHERS
    assert way.call(1).step is Step.COMPARE


def test_a_slave_asks_its_master_compares_and_copies() -> None:
    way = Way(own_id=2, group={0: TWO, 1: ONE})
    assert way.to_the_end() == [(Step.ASK, 0), (Step.COMPARE, 0), (Step.FOLLOW, 0)]


@pytest.mark.parametrize(
    ("own_id", "group", "why"),
    [
        (0, {}, "the name servers know of no other member"),
        (1, {}, "the name servers know of no other member"),
    ],
)
def test_a_broker_without_a_source_goes_online(
    own_id: int, group: dict[int, str], why: str
) -> None:
    assert Way(own_id, group).tick() == GoOnline(why)


def test_a_master_that_a_slave_copies_from_takes_its_tables_first() -> None:
    """INV-29: the slave registers a moment after the name servers answered last."""
    way = Way(group={})
    way.is_copied = True
    assert way.tick() is None
    assert way.core.next_deadline() == way.now + LOOK_MS
    assert "copies from here" in way.core.state
    assert way.tick(REGISTER - 1) is None
    way.verdict, way.group = OTHERS, {1: ONE}
    assert way.to_the_end()[0] == (Step.COMPARE, 1)


def test_a_master_is_not_alone_by_answers_of_before() -> None:
    """Found by the simulator (world hard, seed 700552): a slave had registered since, and acted
    beside the master (INV-27)."""
    way = Way(group={})
    way.asked_ms = way.now - 1
    assert way.tick() == AskAgain()
    assert way.core.next_deadline() == way.now + ANSWER_LOOK_MS
    assert way.tick(ANSWER_LOOK_MS) is None  # the answers are still the old ones
    way.verdict, way.group, way.asked_ms = OTHERS, {1: ONE}, way.now
    assert way.to_the_end()[0] == (Step.COMPARE, 1)


def test_a_master_that_is_still_alone_is_online() -> None:
    way = Way(group={})
    way.asked_ms = way.now - 1
    assert way.tick() == AskAgain()
    way.verdict = UNKNOWN
    assert way.tick(ANSWER_LOOK_MS) is None
    way.verdict, way.asked_ms = ALONE, way.now
    assert way.tick(LOOK_MS) == AskAgain()  # what was said before the silence is old as well
    way.asked_ms = way.now
    assert isinstance(way.tick(ANSWER_LOOK_MS), GoOnline)


def test_a_slave_that_is_alone_need_not_ask_again() -> None:
    way = Way(own_id=1, group={})
    way.asked_ms = way.now - 1
    assert isinstance(way.tick(), GoOnline)


def test_a_slave_that_never_registers_keeps_no_master_away_for_long() -> None:
    way = Way(group={})
    way.is_copied = True
    for _ in range(REGISTER // LOOK_MS):
        assert way.tick() is None
        way.now += LOOK_MS
    assert isinstance(way.tick(), GoOnline)


def test_a_slave_that_copies_no_more_is_not_waited_for() -> None:
    way = Way(group={})
    way.is_copied = True
    assert way.tick() is None
    way.is_copied = False
    assert isinstance(way.tick(1), GoOnline)


@pytest.mark.parametrize("own_id", [0, 1])
def test_silence_of_name_servers_is_no_permission(own_id: int) -> None:
    """H3."""
    way = Way(own_id)
    way.verdict, way.group = UNKNOWN, {}
    for _ in range(1000):
        assert way.tick(1_000) is None
    assert way.core.state == "waiting for the name servers to tell who is in the group"
    assert way.core.waits_for == way.core.state
    way.verdict = OTHERS
    assert way.tick() is None


def test_after_a_failure_everything_begins_again_after_ever_longer_pauses() -> None:
    """H25, H26: upstream tries again at once, and goes on with the member it was at."""
    way = Way(group={1: ONE, 2: TWO})
    pause = RETRY_MS
    for attempt in range(1, 20):
        call = way.until(Step.PULL)
        assert call == PreOnlineCall(Step.PULL, 1, ONE, attempt)
        way.core.failed(call, "refused with 1", way.now)
        assert way.tick(pause - 1) is None
        assert way.core.next_deadline() == way.now + 1
        assert way.core.state == (
            f"pausing before another attempt (attempt {attempt};"
            f" taking the tables of 1@{ONE}: refused with 1)"
        )
        assert way.call(1) == PreOnlineCall(Step.COMPARE, 1, ONE, attempt + 1)
        pause = min(2 * pause, RETRY_MAX_MS)
    assert pause == RETRY_MAX_MS
    assert way.core.statistics() == {"attempts": 20, "failures": 19, "steps_left": 12}


def test_a_call_without_an_end_counts_as_failed() -> None:
    way = Way()
    call = way.call()
    assert way.core.next_deadline() == way.now + CALL_MS
    assert way.tick(CALL_MS - 1) is None
    assert way.tick(1) is None
    assert way.core.trouble == f"comparing logs with 1@{ONE}: nothing came of it"
    again = way.call(RETRY_MS)
    for late in (way.core.done, lambda c, n: way.core.failed(c, "late", n)):
        late(call, way.now)
    way.core.not_yet(call, 1, "late", way.now)
    way.core.diverged(call, "late", way.now)
    assert (way.core.is_diverged, way.core._calling) == (False, again)


def test_a_link_has_time_as_long_as_it_comes_nearer() -> None:
    way = Way()
    link = way.until(Step.LINK)
    for left in (900, 500, 100):
        way.core.not_yet(link, left, f"it lacks {left} bytes", way.now)
        assert way.tick(LOOK_MS - 1) is None
        assert way.call(WAIT_MAX_MS - LOOK_MS) == link
    assert way.core.state == f"waiting for the replication link of 1@{ONE}: it lacks 100 bytes"
    way.core.not_yet(link, 100, "it lacks 100 bytes", way.now)
    assert way.call(LOOK_MS) == link
    way.core.not_yet(link, 100, "it lacks 100 bytes", way.now)
    assert way.core._plan is None
    assert "no progress in 10000 ms: it lacks 100 bytes" in way.core.trouble


def test_a_link_that_never_comes_is_begun_again() -> None:
    way = Way()
    link = way.until(Step.LINK)
    way.core.not_yet(link, None, "no link", way.now)
    assert way.call(WAIT_MAX_MS) == link
    way.core.not_yet(link, None, "no link", way.now)
    assert way.core.trouble.endswith("no link")
    assert way.call(RETRY_MS).step is Step.COMPARE


def test_the_timeout_of_the_next_step_starts_from_zero() -> None:
    way = Way(group={1: ONE, 2: TWO})
    link = way.until(Step.LINK)
    way.core.not_yet(link, 5, "it lacks 5 bytes", way.now)
    way.call(WAIT_MAX_MS - 1)
    way.core.done(link, way.now)
    second = way.until(Step.LINK)
    assert second.member == 2
    way.core.not_yet(second, 900, "it lacks 900 bytes", way.now)
    assert way.call(WAIT_MAX_MS - 1) == second


@pytest.mark.parametrize("group", [{1: TWO}, {1: ONE, 2: TWO}])
def test_a_member_that_joins_or_moves_restarts_the_attempt(group: dict[int, str]) -> None:
    """H28; and whoever came last might know more than all others."""
    way = Way()
    call = way.until(Step.PULL_AGAIN)
    way.group = group
    assert way.tick() is None
    way.core.done(call, way.now)
    assert way.call(RETRY_MS).step is Step.COMPARE
    assert way.to_the_end()


def test_a_member_that_joins_at_the_last_moment_is_asked() -> None:
    way = Way()
    way.core.done(way.until(Step.PULL_AGAIN), way.now)
    way.group = {1: ONE, 2: TWO}
    assert way.tick() is None
    assert not way.core.online


def test_a_member_that_is_no_longer_listed_restarts_nothing() -> None:
    way = Way(own_id=1, group={0: ONE})
    way.until(Step.FOLLOW)
    way.group = {2: TWO}
    assert way.to_the_end() == []


def test_a_slave_whose_master_moved_begins_again() -> None:
    way = Way(own_id=1, group={0: ONE})
    way.until(Step.FOLLOW)
    way.group = {0: TWO, 2: ONE}
    assert way.tick() is None
    assert way.call(RETRY_MS) == PreOnlineCall(Step.ASK, 0, TWO, 2)


def test_logs_that_differ_are_told_until_somebody_did_something() -> None:
    """H9: upstream's slave dials again and again, and nobody hears of it."""
    way = Way()
    way.core.diverged(way.call(), "both have 7", way.now)
    assert way.core.is_diverged
    assert way.core.state == "DIVERGED both have 7"
    assert way.tick(DIVERGED_MS - 1) is None
    assert way.call(1).step is Step.COMPARE
    assert way.core.is_diverged  # until it is known to be otherwise
    assert way.to_the_end()
    assert not way.core.is_diverged
    assert way.core.trouble == ""


def test_a_hand_over_that_takes_too_long_is_none() -> None:
    """The members may act as master again, so what was copied from them is old."""
    way = Way(group={1: ONE, 2: TWO})
    way.until(Step.HAND_OVER)
    assert way.core.next_deadline() == way.now + HOLD
    way.now += HOLD - 1
    call = way.until(Step.PULL_AGAIN)
    assert way.tick(1) is None
    way.core.done(call, way.now)
    assert way.core.trouble == "the hand-over took too long"
    assert way.call(RETRY_MS).step is Step.COMPARE
    assert way.to_the_end()


class Group(RuleBasedStateMachine):
    """Members come, go, act as master and are asked; answers come, fail, or never come."""

    def __init__(self) -> None:
        super().__init__()
        self.core = PreOnline(0, HOLD, REGISTER)
        self.now = 0
        self.own = ConsumerOffsets()
        self.tables: dict[int, ConsumerOffsets] = {}
        self.listed: dict[int, str] = {}
        self.held: dict[int, int] = {}
        self.silent = True
        self.is_copied = False
        self.open: PreOnlineCall | None = None
        self.online = False
        self.before: dict[int, tuple[int, int]] = {}

    @initialize(offsets=st.lists(st.integers(0, 20), max_size=3))
    def had(self, offsets: list[int]) -> None:
        for queue_id, offset in enumerate(offsets):
            self.own.commit("g", "T", queue_id, offset)
            self.before[queue_id] = (0, offset)

    def address(self, member: int, port: int = 10911) -> str:
        return f"10.0.0.{member}:{port}"

    @rule(member=st.integers(1, 3), moved=st.booleans())
    def comes(self, member: int, moved: bool) -> None:
        self.listed[member] = self.address(member, 20911 if moved else 10911)
        self.tables.setdefault(member, ConsumerOffsets())

    @rule(member=st.integers(1, 3))
    def goes(self, member: int) -> None:
        self.listed.pop(member, None)

    @rule(silent=st.booleans())
    def name_servers(self, silent: bool) -> None:
        self.silent = silent

    @rule(is_copied=st.booleans())
    def link(self, is_copied: bool) -> None:
        self.is_copied = is_copied

    @precondition(lambda self: self.standing_in())
    @rule(data=st.data(), queue_id=st.integers(0, 2), step=st.integers(1, 9), reset=st.booleans())
    def consumes(self, data: st.DataObject, queue_id: int, step: int, reset: bool) -> None:
        """Consumers go on where nobody has stepped down, and an admin may set them back."""
        table = self.tables[data.draw(st.sampled_from(self.standing_in()))]
        if reset:
            table.reset("g", "T", queue_id, data.draw(st.integers(0, 5)), self.now)
            table.pop_reset("g", "T", queue_id)
        else:
            table.commit("g", "T", queue_id, max(0, table.get("g", "T", queue_id)) + step)

    def standing_in(self) -> list[int]:
        return [member for member in self.tables if self.held.get(member, 0) <= self.now]

    @rule(later_ms=st.sampled_from([0, 1, LOOK_MS, RETRY_MS, HOLD // 2, RETRY_MAX_MS, CALL_MS]))
    def time_passes(self, later_ms: int) -> None:
        self.now += later_ms
        self.tick()

    def tick(self) -> None:
        verdict = OTHERS if self.listed else ALONE
        if self.silent:
            verdict, group = UNKNOWN, dict[int, str]()
        else:
            group = dict(self.listed)
        for effect in self.core.tick(self.now, verdict, group, is_copied=self.is_copied):
            if isinstance(effect, GoOnline):
                self.goes_online(group)
            else:
                self.open = effect

    @precondition(lambda self: self.open is not None)
    @rule(how=st.sampled_from(["done", "done", "done", "failed", "later", "diverged", "never"]))
    def answers(self, how: str) -> None:
        call, self.open = self.open, None
        assert call is not None
        if how == "done":
            self.work(call)
            self.core.done(call, self.now)
        elif how == "failed":
            self.core.failed(call, "no", self.now)
        elif how == "later":
            self.core.not_yet(call, None, "later", self.now)
        elif how == "diverged":
            self.core.diverged(call, "differs", self.now)
        self.tick()

    def work(self, call: PreOnlineCall) -> None:
        table = self.tables[call.member]
        if call.step in (Step.PULL, Step.PULL_AGAIN):
            self.own.merge(table.content(), self.now)
        elif call.step is Step.HAND_OVER:
            self.held[call.member] = self.now + 2 * HOLD

    def goes_online(self, group: dict[int, str]) -> None:
        """INV-33, INV-29: everything that the members know is known here."""
        assert not self.online
        self.online = True
        for queue_id in range(3):
            known = [self.before.get(queue_id, (0, -1))]
            for member in group:
                table = self.tables[member]
                mark = table.reset_marks.get("T@g", {}).get(queue_id, 0)
                known.append((mark, table.row("g", "T").get(queue_id, -1)))
            youngest = max(mark for mark, _ in known)
            offset = max(at for mark, at in known if mark == youngest)
            own_mark = self.own.reset_marks.get("T@g", {}).get(queue_id, 0)
            assert (own_mark, self.own.get("g", "T", queue_id)) >= (youngest, offset)

    @invariant()
    def it_says_what_it_waits_for(self) -> None:
        core = self.core
        assert core.state
        assert core.online == self.online
        if not core.online:
            assert core.next_deadline() is not None

    def teardown(self) -> None:
        """Once everything works it ends, however it stood."""
        self.silent = False
        for _ in range(60 + REGISTER // LOOK_MS):  # it waits for a copying slave to register
            if self.online:
                return
            self.now += max(0, (self.core.next_deadline() or 0) - self.now)
            self.tick()
            for _ in range(30):
                if self.open is not None:
                    call, self.open = self.open, None
                    self.work(call)
                    self.core.done(call, self.now)
                    self.tick()
        assert self.online, self.core.state


TestGroup = Group.TestCase
TestGroup.settings = settings(stateful_step_count=40)
