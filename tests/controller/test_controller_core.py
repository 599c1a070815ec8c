"""The core: how requests wait, fail and end."""

from collections.abc import Callable

import pytest
from tests.controller.world import HEARTBEAT, INFO, KEY, NEXT_ID, Broker, World, brokers, options

from epochmq.base import limits
from epochmq.base.errors import HeaderError, OurBug, Refused, UsageError
from epochmq.controller.commands import CleanBrokerData
from epochmq.controller.controller_core import CALL_MS, ControllerCore
from epochmq.controller.controller_effects import ProposeCommand, ReadBarrier, SendReply
from epochmq.controller.machine import DONE, Machine
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Election, Steps, Write
from epochmq.wire.command import Command, Reply, request


def waiting(step: object) -> Callable[[ControllerCore, ControllerCall], Steps]:
    def handler(core: ControllerCore, call: ControllerCall) -> Steps:
        result = yield step  # type: ignore[misc]
        return Reply(0, str(result))

    return handler


def failing(error: Exception) -> Callable[[ControllerCore, ControllerCall], Reply]:
    def handler(core: ControllerCore, call: ControllerCall) -> Reply:
        raise error

    return handler


def core_with(handler: object, *, leads: bool = True) -> ControllerCore:
    core = ControllerCore(Machine(), options(), {9: (handler, True)})  # type: ignore[dict-item]
    if leads:
        core.became_leader(3, 100)
        core.pop_effects()
    return core


def answers(core: ControllerCore) -> list[Reply]:
    return [effect.reply for effect in core.pop_effects() if isinstance(effect, SendReply)]


ASKED: Command = request(9)


def test_a_write_is_answered_when_it_is_applied() -> None:
    core = core_with(waiting(Write(CleanBrokerData(*KEY))))
    core.request(1, ASKED, 0, 100)
    (effect,) = core.pop_effects()
    assert isinstance(effect, ProposeCommand)
    core.applied(effect.ticket, DONE, 110)
    assert [reply.code for reply in answers(core)] == [0]
    assert core.statistics()["calls"] == 0


@pytest.mark.parametrize("lost", ["dropped", "lost_leadership"])
def test_a_write_whose_fate_is_unknown_is_sent_to_the_leader(lost: str) -> None:
    core = core_with(waiting(Write(CleanBrokerData(*KEY))))
    core.request(1, ASKED, 0, 100)
    (effect,) = core.pop_effects()
    assert isinstance(effect, ProposeCommand)
    core.context.leader_id = None
    if lost == "dropped":
        core.dropped(effect.ticket, 110)
    else:
        core.lost_leadership(110)
    (reply,) = answers(core)
    assert reply.code == 2007
    core.applied(effect.ticket, DONE, 120)
    assert core.pop_effects() == []


def test_what_a_heartbeat_wrote_is_tried_again_after_a_change_of_leaders() -> None:
    world = World()
    found = brokers(world)
    core = world.leader.core
    found[2].address = "10.8.8.8:10911"
    core.request(999, request(HEARTBEAT, found[2].beat_ext()), 103, world.now)
    assert core.recording
    core.lost_leadership(world.now)
    assert not core.recording


def test_a_read_passes_a_barrier_unless_nobody_else_can_lead() -> None:
    core = core_with(waiting(ConfirmLeadership()))
    core.request(1, ASKED, 0, 100)
    (effect,) = core.pop_effects()
    assert isinstance(effect, ReadBarrier)
    core.read_ready(effect.ticket, 110)
    assert [reply.code for reply in answers(core)] == [0]
    core.read_ready(effect.ticket, 111)
    core.context.leader_until = 500
    core.request(2, ASKED, 0, 499)
    assert [reply.code for reply in answers(core)] == [0]
    core.request(3, ASKED, 0, 500)
    (effect,) = core.pop_effects()
    assert isinstance(effect, ReadBarrier)
    core.read_failed(effect.ticket, 501)
    assert [reply.code for reply in answers(core)] == [2007]


def test_an_election_that_does_not_end_ends_the_waiting() -> None:
    core = core_with(waiting(Election(KEY, 700)))
    core.request(1, ASKED, 0, 100)
    assert core.pop_effects() == []
    assert core.next_deadline() <= 700
    core.tick(699)
    assert answers(core) == []
    core.tick(700)
    assert [reply.code for reply in answers(core)] == [0]


def test_an_answer_that_comes_too_late_is_given_up() -> None:
    core = core_with(waiting(Write(CleanBrokerData(*KEY))))
    core.request(1, ASKED, 0, 100)
    core.pop_effects()
    core.tick(100 + CALL_MS)
    (reply,) = answers(core)
    assert reply.code == 1
    assert "not known" in str(reply.remark)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(2003, "so"), 2003),
        (HeaderError("x is missing"), 1),
        (UsageError("too large"), 1),
        (KeyError("x"), 1),
    ],
)
def test_errors_become_answers(error: Exception, code: int) -> None:
    core = core_with(failing(error))
    core.request(1, ASKED, 0, 100)
    assert [reply.code for reply in answers(core)] == [code]


def test_a_broken_rule_stops_the_controller() -> None:
    core = core_with(failing(OurBug("x")))
    with pytest.raises(OurBug):
        core.request(1, ASKED, 0, 100)
    core = core_with(waiting("nonsense"))
    with pytest.raises(OurBug, match="waits for"):
        core.request(1, ASKED, 0, 100)


def test_a_follower_names_the_leader() -> None:
    core = core_with(waiting(ConfirmLeadership()), leads=False)
    core.request(1, ASKED, 0, 100)
    (reply,) = answers(core)
    assert (reply.code, "no leader is known" in str(reply.remark)) == (2007, True)


def test_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTROLLER_CALLS_MAX", 1)
    core = core_with(waiting(Write(CleanBrokerData(*KEY))))
    core.request(1, ASKED, 0, 100)
    core.request(2, ASKED, 0, 100)
    assert [reply.code for reply in answers(core)] == [2]


def test_the_silent_are_dropped_from_the_table() -> None:
    world = World()
    brokers(world)
    assert world.leader.core.statistics()["brokers"] == 3
    world.run(16_000)
    assert world.leader.core.statistics()["brokers"] == 0
    assert world.leader.core.statistics()["groups"] == 1


def test_the_time_a_master_may_be_dead_wakes_the_core() -> None:
    world = World()
    found = brokers(world, 1)
    found[0].beat()
    world.run(1)
    core = world.leader.core
    assert core.elections.next_deadline() is not None
    assert core.next_deadline() <= world.now + 5_000


def test_a_follower_does_not_watch() -> None:
    world = World(3)
    brokers(world)
    follower = world.nodes["n2"].core
    assert follower.elections.next_deadline() is None
    assert not follower.context.leads


def test_a_deposed_leader_stops_scheduling_and_sends_the_waiting_away() -> None:
    world = World(3)
    found = brokers(world)
    old = world.leader
    world.cut = {("n0", "n1"), ("n0", "n2"), ("n1", "n0"), ("n2", "n0")}
    token = world.send(NEXT_ID, {"clusterName": "c", "brokerName": "b"}, to="n0")
    alter = world.send(INFO, {"brokerName": "b"}, to="n0")
    world.run(3_000)
    assert not old.core.context.leads
    assert old.core.elections.next_deadline() is None
    assert {world.answers[token].code, world.answers[alter].code} <= {0, 2007}
    assert world.leader is not old
    world.cut = set()
    world.run(1_000)
    late = Broker(world, 4)
    assert late.apply().code == 0
    world.run(300)
    assert old.machine.state_hash() == world.leader.machine.state_hash()
    assert found[0].world is world


def test_a_closed_connection_and_a_refused_port_mean_an_election() -> None:
    world = World()
    found = brokers(world)
    master = next(one for one in found if one.id == world.group.master)
    world.refusing.add(master.address)
    node = world.leader
    node.core.channel_closed(master.connection, world.now)
    world._carry_out("n0")
    world.run(300)
    assert world.group.master not in (None, master.id)
    assert [dial.address for _, dial in world.dials] == [master.address]


def test_a_port_that_answers_is_tried_again_and_nobody_is_deposed() -> None:
    world = World()
    found = brokers(world)
    master = world.group.master
    connection = next(one.connection for one in found if one.id == master)
    world.leader.core.channel_closed(connection, world.now)
    world._carry_out("n0")
    world.run(300)
    assert len(world.dials) > 1
    assert world.group.master == master


def test_what_is_told_of_an_unknown_ticket_changes_nothing() -> None:
    core = core_with(waiting(ConfirmLeadership()))
    core.dialed(77, True, 100)
    core.read_ready(77, 100)
    core.read_failed(77, 100)
    core.notified(77, True, 100)
    assert core.pop_effects() == []


def test_an_outcome_that_comes_after_the_call_was_given_up_is_no_answer() -> None:
    core = core_with(waiting(Write(CleanBrokerData(*KEY))))
    core.request(1, ASKED, 0, 100)
    (effect,) = core.pop_effects()
    assert isinstance(effect, ProposeCommand)
    core.tick(100 + CALL_MS)
    assert len(answers(core)) == 1
    core.applied(effect.ticket, DONE, 100 + CALL_MS + 1)
    core.tick(100 + 2 * CALL_MS)
    assert core.pop_effects() == []


def test_an_election_that_ends_after_its_waiter_gave_up_resumes_nobody() -> None:
    core = core_with(waiting(Election(KEY, 700)))
    core.request(1, ASKED, 0, 100)
    core.tick(700)
    assert [reply.code for reply in answers(core)] == [0]
    core.lost_leadership(710)
    assert answers(core) == []


def test_a_call_gets_a_new_deadline_after_an_election() -> None:
    def handler(core: ControllerCore, call: ControllerCall) -> Steps:
        yield Election(KEY, 700)
        yield Write(CleanBrokerData(*KEY))
        return Reply(0)

    core = core_with(handler)
    core.request(1, ASKED, 0, 100)
    core.elections.stop()
    (effect,) = core.pop_effects()
    assert isinstance(effect, ProposeCommand)
    core.tick(700)
    assert answers(core) == []
    core.applied(effect.ticket, DONE, 710)
    assert [reply.code for reply in answers(core)] == [0]


def test_a_read_that_waits_while_the_lead_is_lost_is_sent_away_once() -> None:
    core = core_with(waiting(ConfirmLeadership()))
    core.request(1, ASKED, 0, 100)
    (effect,) = core.pop_effects()
    assert isinstance(effect, ReadBarrier)
    core.lost_leadership(110)
    assert [reply.code for reply in answers(core)] == [2007]
    core.read_ready(effect.ticket, 120)
    assert answers(core) == []


def test_an_unknown_code_is_not_supported() -> None:
    core = core_with(waiting(ConfirmLeadership()))
    core.request(1, request(31_999), 0, 100)
    assert [reply.code for reply in answers(core)] == [3]
