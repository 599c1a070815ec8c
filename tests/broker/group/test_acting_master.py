"""When a slave acts as master, when it stops, and which brokers it asks and informs."""

import dataclasses
from collections.abc import Mapping

import pytest

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.acting_master import (
    CONFIRM_MS,
    REGISTER_AGAIN_MS,
    Act,
    Acting,
    ActingOptions,
    ActingReport,
    Beat,
    Cease,
    Effect,
    FetchProgress,
    Poll,
    Probe,
    RegisterFully,
    Return,
    says_it_serves,
)
from epochmq.model.data_version import DataVersion
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command
from epochmq.wire.json_tolerant import dumps_bare

A, B, C = "a:1", "b:1", "c:1"
MASTER, OURS, SENIOR, JUNIOR = "m:1", "s:1", "t:1", "j:1"
OPTIONS = ActingOptions("c", "b", 1, OURS, compat=False)
VERSION = DataVersion()
WHOLE, ALONE = {0: MASTER, 1: OURS}, {1: OURS}
SERVING = Command(ResponseCode.SUCCESS, ext={"masterAddress": MASTER})
NOT_SERVING = Command(ResponseCode.SUCCESS, ext={"masterFlushOffset": "0"})
STOOD_IN = Command(ResponseCode.SUCCESS, ext={"masterFlushOffset": "0", "stoodIn": "true"})


def said(members: Mapping[int, str]) -> Command:
    group = {"cluster": "c", "brokerName": "b", "brokerAddrs": members}
    return Command(ResponseCode.SUCCESS, body=dumps_bare({"brokerMemberGroup": group}))


class World:
    """The core with name servers that say what `says` says, and a master that answers `probe`."""

    def __init__(self, *servers: str, options: ActingOptions = OPTIONS, ready: bool = True) -> None:
        self.now = 0
        self.core = Acting(options, servers or (A,), 0)
        self.core.ready = ready
        self.says: dict[str, Command | None] = {one: said(WHOLE) for one in servers or (A,)}
        self.probe: Command | None = SERVING
        self.done: list[Effect] = []

    def step(self, ms: int = 0) -> None:
        """Let time pass to a tick, and answer everything that it asks, at once."""
        self.now += ms
        self.take(self.core.tick(self.now, VERSION))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.done.append(effect)
            if isinstance(effect, Poll):
                self.take(self.core.polled(effect.address, self.says[effect.address], self.now))
            elif isinstance(effect, Probe):
                self.take(self.core.probed(effect, self.probe, self.now))

    def run(self, ms: int, pace: int = 100) -> None:
        for _ in range(ms // pace):
            self.step(pace)

    def of(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.done if isinstance(effect, kind)]

    def all_say(self, members: Mapping[int, str]) -> None:
        self.says = dict.fromkeys(self.says, said(members))

    def lose_master(self) -> None:
        self.all_say(ALONE)
        self.probe = None


def first_probe(world: World) -> Probe:
    """Answer questions until the master is asked, and leave that open."""
    for _ in range(50):
        world.now += 100
        for effect in world.core.tick(world.now, VERSION):
            if isinstance(effect, Probe):
                return effect
            if isinstance(effect, Poll):
                world.core.polled(effect.address, world.says[effect.address], world.now)
    raise AssertionError("the master was not asked")


def acting(*servers: str) -> World:
    world = World(*servers)
    world.step()
    world.lose_master()
    world.run(3_000)
    assert world.core.acting
    world.done.clear()
    return world


def test_an_answer_is_as_old_as_its_question() -> None:
    core = Acting(OPTIONS, (A,), 0)
    assert Poll in map(type, core.tick(100, VERSION))
    core.polled(A, said(ALONE), 900)
    assert core.view.asked_ms(950) == 100


def test_a_slave_acts_within_2_s_of_its_masters_death() -> None:
    world = World(A, B, C)
    world.run(5_000)
    assert not world.of(Act)
    assert not world.of(Probe)
    world.lose_master()
    world.run(2_000)
    (act,) = world.of(Act)
    assert isinstance(act, Act)
    assert "3 of 3 name servers" in act.why


def test_a_hint_makes_it_quicker_but_not_endlessly() -> None:
    """905, or the connection to the master broke."""
    world = World()
    world.step()
    world.lose_master()
    for _ in range(50):
        world.core.hint(world.now)
    world.run(600)
    assert world.core.acting
    assert len(world.of(Poll)) <= 6


@pytest.mark.parametrize("ends", [None, NOT_SERVING])
def test_a_master_that_answers_keeps_its_place_until_it_does_not(ends: Command | None) -> None:
    """H1: name servers that were restarted, or flap, know no master either."""
    world = World()
    world.step()
    world.all_say(ALONE)
    world.run(20_000)
    assert not world.core.acting
    assert world.of(Probe)
    world.probe = ends
    world.run(1_000)
    assert world.core.acting


def test_half_of_the_name_servers_are_no_majority() -> None:
    world = World(A, B)
    world.step()
    world.probe = None
    world.says = {A: said(ALONE), B: None}
    world.run(20_000)
    assert not world.of(Act)


def test_one_answer_more_breaks_the_row() -> None:
    world = World()
    world.step()
    world.probe = None
    for _ in range(10):
        world.all_say(ALONE)
        world.core.hint(world.now)
        world.run(2 * CONFIRM_MS)
        world.all_say(WHOLE)
        world.core.hint(world.now)
        world.run(2 * CONFIRM_MS)
    assert not world.of(Act)


def test_a_failed_probe_of_another_time_does_not_count() -> None:
    world = World()
    world.step()
    world.all_say(ALONE)
    late = first_probe(world)
    for answer in (WHOLE, ALONE, ALONE, ALONE):
        world.now += 100
        world.core.polled(A, said(answer), world.now)
    assert world.core.probed(late, None, world.now) == []
    assert not world.core.acting


def test_what_a_probe_of_another_address_says_is_nothing() -> None:
    """H28."""
    world = World()
    world.step()
    world.all_say(ALONE)
    probe = first_probe(world)
    world.core.view.known[0] = "moved:1"
    assert world.core.probed(probe, None, world.now) == []
    (again,) = [e for e in world.core.tick(world.now + 2_000, VERSION) if isinstance(e, Probe)]
    assert again.address == "moved:1"


def test_one_probe_at_a_time() -> None:
    world = World()
    world.step()
    world.all_say(ALONE)
    first_probe(world)
    asked = [e for ms in (10, 2_000, 9_000) for e in world.core.tick(world.now + ms, VERSION)]
    assert not [e for e in asked if isinstance(e, Probe)]


def test_without_the_tables_it_does_not_act_and_says_so_once() -> None:
    """S15."""
    world = World(ready=False)
    world.step()
    world.lose_master()
    world.run(5_000)
    assert not world.of(Act)
    assert len(world.of(ActingReport)) == 1
    world.core.ready = True
    world.run(1_000)
    assert world.core.acting


def test_nobody_ever_named_a_master() -> None:
    """A slave that starts into a group without one acts when its name servers are believed."""
    world = World()
    world.lose_master()
    world.run(9_900)
    assert not world.core.acting
    world.run(1_000)
    assert world.core.acting
    assert not world.of(Probe)


@pytest.mark.parametrize("own_id", [0, 2])
def test_only_the_slave_with_the_smallest_id_acts(own_id: int) -> None:
    own = MASTER if own_id == 0 else OURS
    world = World(options=dataclasses.replace(OPTIONS, own_id=own_id, own_address=own))
    world.all_say({0: MASTER, 1: SENIOR, 2: OURS})
    world.step()
    world.all_say({1: SENIOR, own_id: own})
    world.probe = None
    world.run(20_000)
    assert not world.of(Act)


def test_the_next_slave_acts_when_the_smaller_one_is_gone_too() -> None:
    world = World(options=dataclasses.replace(OPTIONS, own_id=2))
    world.all_say({0: MASTER, 1: SENIOR, 2: OURS})
    world.step()
    world.all_say({2: OURS})
    world.probe = None
    world.run(2_000)
    assert world.core.acting
    world.all_say({1: SENIOR, 2: OURS})
    world.run(1_100)
    assert not world.core.acting


def test_a_broker_that_is_not_online_neither_acts_nor_tells() -> None:
    world = World()
    world.core.registers = False
    world.all_say({})
    world.probe = None
    world.run(20_000)
    assert {type(effect) for effect in world.done} == {Poll}
    assert world.core.beaten(A, changed=True, now=world.now) == []


# Ceasing -----------------------------------------------------------------------------------------


def test_it_ceases_when_one_name_server_shows_the_master_again() -> None:
    world = acting(A, B, C)
    world.says[C] = said(WHOLE)
    world.run(1_000)
    (cease,) = world.of(Cease)
    assert isinstance(cease, Cease)
    assert C in cease.why


def test_it_ceases_when_the_master_answers() -> None:
    world = acting()
    world.probe = SERVING
    world.run(1_000)
    assert len(world.of(Cease)) == 1
    world.run(10_000)
    assert not world.of(Act)


def test_it_steps_down_for_the_hand_over_and_stays_down_for_a_while() -> None:
    """H4."""
    world = acting()
    world.take(world.core.step_down("the master returns", world.now))
    assert world.done == [Cease("the master returns")]
    assert world.core.step_down("again", world.now) == []
    world.run(9_900)
    assert not world.core.acting
    world.run(1_000)
    assert world.core.acting


def test_after_acting_without_a_hand_over_it_owes_progress_and_asks_again() -> None:
    """A master that stood still for a moment, or whose heartbeats were late, knows of nothing."""
    world = acting()
    world.all_say(WHOLE)
    world.probe = SERVING
    world.run(1_000)
    assert world.of(Cease)
    assert world.core.owes
    world.done.clear()
    world.run(5_000)
    assert len(world.of(Probe)) == 5, "the master asks back whenever it is asked"
    world.take(world.core.step_down("the master returns", world.now))
    assert not world.core.owes
    world.done.clear()
    world.run(5_000)
    assert not world.of(Probe)


def test_a_master_that_serves_and_takes_nothing_back_is_not_waited_for() -> None:
    """RocketMQ's, or skipPreOnline; one that is silent, or on its way back, may still."""
    world = acting()
    world.probe = SERVING
    world.run(1_000)
    for answer in (None, NOT_SERVING):
        world.run(9_000)
        world.all_say(WHOLE)
        world.probe = answer
        world.run(30_000)
        assert world.core.owes
        world.probe = SERVING
    world.run(9_000)
    assert world.core.owes
    world.run(2_000)
    assert not world.core.owes
    (report,) = world.of(ActingReport)
    assert isinstance(report, ActingReport)
    assert "did not take back" in report.text


def test_owed_progress_after_a_restart_waits_until_the_slave_is_registered() -> None:
    """Before that no master can take anything back; then it is asked, as by who only ceased."""
    world = World()
    world.core.owes = True
    world.core.registers = False
    world.run(30_000)
    assert world.core.owes
    assert not world.of(Probe)
    assert world.core.probed(Probe(MASTER, Command(0), 0), SERVING, world.now) == []
    world.core.registers = True
    world.run(9_000)
    assert world.core.owes
    assert world.of(Probe)
    world.run(2_000)
    assert not world.core.owes


def test_without_a_majority_it_ceases_when_name_servers_have_forgotten_it() -> None:
    world = acting(A, B, C)
    world.says = {A: said(ALONE), B: None, C: None}
    world.run(9_000)
    assert world.core.acting
    world.run(2_000)
    (cease,) = world.of(Cease)
    assert isinstance(cease, Cease)
    assert "no majority" in cease.why


def test_a_slave_whose_disk_failed_neither_goes_on_nor_begins() -> None:
    world = acting()
    world.core.able = False
    world.run(5_000)
    assert len(world.of(Cease)) == 1
    assert not world.of(Act)


def test_a_name_server_that_is_restarted_does_not_end_it() -> None:
    world = acting()
    world.core.lost(A, world.now)
    world.says = {A: None}
    world.run(3_000)
    world.all_say({})
    world.run(1_000)
    assert world.of(RegisterFully)
    world.all_say(ALONE)
    world.run(20_000)
    assert world.core.acting


def test_a_lost_connection_of_a_stranger_is_nothing() -> None:
    world = World()
    world.core.lost("x:1", 0)
    assert list(world.core._poll_at) == [A]


# Telling and asking ------------------------------------------------------------------------------


def test_it_is_told_twice_before_anybody_may_believe_that_nobody_is_there() -> None:
    """INV-33: half of what a returning master waits is enough for a second try."""
    world = World(options=dataclasses.replace(OPTIONS, not_active_ms=2_000))
    world.step()
    world.all_say({0: MASTER})
    world.run(1_000)
    assert world.of(RegisterFully) == [RegisterFully(A)]
    world.run(1_000)
    assert world.of(RegisterFully) == [RegisterFully(A)] * 2


def test_a_name_server_that_lacks_us_gets_one_registration_at_once() -> None:
    """H2."""
    world = World()
    world.step()
    world.all_say({0: MASTER})
    world.run(1_000)
    assert world.of(RegisterFully) == [RegisterFully(A)]
    world.run(REGISTER_AGAIN_MS - 1_000)
    assert len(world.of(RegisterFully)) == 1
    world.run(2_000)
    assert len(world.of(RegisterFully)) == 2
    world.all_say(WHOLE)
    world.run(1_000)
    world.all_say({})
    world.run(1_000)
    assert len(world.of(RegisterFully)) == 3, "it was known meanwhile"


def test_heartbeats_natively_are_904() -> None:
    world = World(A, B)
    world.run(3_000)
    beats = [effect for effect in world.done if isinstance(effect, Beat)]
    assert len(beats) == 2 * 3
    assert {beat.command.code for beat in beats} == {RequestCode.BROKER_HEARTBEAT}
    assert not any(beat.asked for beat in beats)


def test_heartbeats_of_the_old_kind_ask_for_the_version() -> None:
    options = dataclasses.replace(OPTIONS, compat=True, not_active_ms=900)
    world = World(options=options)
    world.says = {A: None}
    world.run(3_000)
    beats = [effect for effect in world.done if isinstance(effect, Beat)]
    assert len(beats) == 10, "three fit into the time after which we are forgotten"
    assert beats[0].command.code == RequestCode.QUERY_DATA_VERSION
    assert beats[0].asked
    assert world.core.beaten(A, changed=False, now=0) == []
    assert world.core.beaten(A, changed=True, now=0) == []
    world.core.view.servers[A].named_us = True
    assert world.core.beaten(A, changed=True, now=0) == [RegisterFully(A)]


def test_a_name_server_that_does_not_know_the_question_is_named() -> None:
    world = World()
    world.says = {A: Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)}
    world.run(5_000)
    (report,) = world.of(ActingReport)
    assert isinstance(report, ActingReport)
    assert "compatibleWithOldNameSrv" in report.text
    assert report.text.endswith(world.core.view.servers[A].problem)


def test_deadlines_and_figures() -> None:
    world = World()
    world.step()
    assert world.core.next_deadline() == 1_000
    assert world.core.statistics() == {"acting": 0, "members": 1, "empty": 0, "failed": 0}
    asked = world.core.tick(1_000, VERSION)
    assert [type(effect) for effect in asked] == [Beat, Poll]
    assert world.core.next_deadline() == 2_000
    alone = Acting(OPTIONS, (), 0)
    assert alone.tick(0, VERSION) == []
    assert alone.next_deadline() == FOREVER


@pytest.mark.parametrize(
    ("answer", "serves"),
    [
        (None, False),
        (SERVING, True),
        (NOT_SERVING, False),
        (Command(ResponseCode.SUCCESS), False),
        (Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED), True),
    ],
)
def test_what_says_that_a_master_serves(answer: Command | None, serves: bool) -> None:
    assert says_it_serves(answer) is serves


# A master ----------------------------------------------------------------------------------------

LEADS = dataclasses.replace(OPTIONS, own_id=0, own_address=MASTER)


def test_a_master_that_stood_still_comes_back_as_after_a_restart() -> None:
    """Else what an acting master did meanwhile would be taken back by the master's old tables."""
    world = World(options=LEADS)
    world.run(5_000)
    world.step(9_900)
    assert not world.of(Return)
    world.step(10_000)
    (back,) = world.of(Return)
    assert isinstance(back, Return)
    assert "10000 ms" in back.why
    world.core.registers = False
    world.step(60_000)
    assert len(world.of(Return)) == 1


@pytest.mark.parametrize("linked", [True, False])
def test_a_master_that_nobody_knew_comes_back_unless_its_slave_was_there(linked: bool) -> None:
    world = World(A, B, C, options=LEADS)
    world.run(1_000)
    world.core.linked = linked
    world.says = dict.fromkeys(world.says)
    world.run(20_000)
    assert not world.of(Return), "as long as nobody answers it goes on"
    world.all_say({})
    world.run(2_000)
    assert len(world.of(Return)) == (0 if linked else 1)


def test_a_master_that_nobody_hears_says_that_it_may_have_a_rival() -> None:
    world = World(A, B, C, options=LEADS)
    world.run(1_000)
    world.says = dict.fromkeys(world.says)
    world.run(LEADS.not_active_ms - 1_000)
    assert not world.of(ActingReport)
    world.core.linked = True
    world.run(2_000)
    assert not world.of(ActingReport), "its slave hears it"
    for times in (1, 2):
        world.core.linked = False
        world.run(30_000)
        assert len(world.of(ActingReport)) == times
        assert "both deliver" in str(world.of(ActingReport)[-1])
        world.core.linked = True
        world.run(100)


def test_a_master_without_name_servers_has_no_rival() -> None:
    core = Acting(LEADS, (), 0)
    assert not [one for one in core.tick(99_000, VERSION) if isinstance(one, ActingReport)]


def test_a_master_that_is_asked_whether_it_serves_asks_back_and_comes_back() -> None:
    """A slave acted as master in a pause that was too short to be noticed here (INV-29)."""
    world = World(options=LEADS)
    world.all_say({0: MASTER, 1: OURS, 2: MASTER})
    world.run(5_000)
    assert not world.of(Probe)
    world.probe = NOT_SERVING
    world.core.hint(world.now)
    world.step(100)
    assert [probe.address for probe in world.of(Probe) if isinstance(probe, Probe)] == [OURS]
    assert not world.of(Return)
    for answer in (None, STOOD_IN):
        world.probe = answer
        world.core.hint(world.now)
        world.core.hint(world.now)
        world.step(200)
    assert len(world.of(Probe)) == 3, "not as often as strangers ask"
    (back,) = world.of(Return)
    assert isinstance(back, Return)
    assert OURS in back.why


def test_frequent_hints_do_not_delay_the_question() -> None:
    """Each hint put the question off: who owed, and asked every 100 ms, was never asked."""
    world = World(options=LEADS)
    world.step(100)
    world.done.clear()
    for _ in range(50):
        world.now += 10
        world.core.hint(world.now)
        world.run(90, pace=30)
    assert len(world.of(Probe)) >= 10


def test_a_master_that_is_not_online_asks_no_former_acting_master() -> None:
    world = World(options=LEADS)
    world.run(1_000)
    world.core.registers = False
    world.probe = STOOD_IN
    world.core.hint(world.now)
    world.run(1_000)
    assert not world.of(Probe)
    assert not world.of(Return)


def test_a_slave_that_stood_still_only_asks() -> None:
    world = World()
    world.step()
    world.step(60_000)
    assert not world.of(Return)


def test_a_master_that_comes_online_late_is_not_sent_back_at_once() -> None:
    world = World(options=LEADS)
    world.core.registers = False
    world.all_say({})
    world.run(20_000)
    world.core.registers = True
    world.run(1_000)
    assert not world.of(Return)


def test_it_takes_the_progress_of_other_slaves_before_it_acts() -> None:
    """Another slave may have acted as master while the name servers did not know of us."""
    world = World()
    world.step()
    world.all_say({1: OURS, 2: JUNIOR})
    world.probe = None
    world.run(3_000)
    assert world.of(FetchProgress) == [FetchProgress((JUNIOR,))]
    assert not world.core.acting
    world.take(world.core.took(world.now))
    world.step(100)
    assert world.core.acting
    assert len(world.of(FetchProgress)) == 1


def test_a_master_that_answers_while_progress_is_taken_keeps_its_place() -> None:
    world = World()
    world.step()
    world.all_say({1: OURS, 2: JUNIOR})
    world.probe = None
    world.run(3_000)
    world.probe = SERVING
    world.take(world.core.took(world.now))
    world.run(3_000)
    assert not world.of(Act)


def test_progress_that_was_taken_before_a_master_was_seen_again_is_taken_again() -> None:
    world = World()
    world.step()
    world.all_say({1: OURS, 2: JUNIOR})
    world.probe = None
    world.run(3_000)
    world.all_say({0: MASTER, 1: OURS, 2: JUNIOR})
    world.run(1_000)
    world.take(world.core.took(world.now))
    world.all_say({1: OURS, 2: JUNIOR})
    world.run(3_000)
    assert len(world.of(FetchProgress)) == 2
    assert not world.core.acting
