"""904: life, logs and leases."""

import pytest
from tests.controller.world import HEARTBEAT, KEY, NAMES, Broker, World, brokers, fields, live_on

from epochmq.base import limits
from epochmq.controller.elect import LogReport


@pytest.fixture
def found() -> list[Broker]:
    return brokers(World())


def test_the_masters_heartbeat_is_answered_with_a_lease(found: list[Broker]) -> None:
    assert fields(found[0].beat()) == {
        "isLeader": "true",
        "leaseSupported": "true",
        "controllerLeaderAddress": "10.9.0.0:9878",
        "controllerTerm": "1",
        "leaseMillis": "2000",
        "wholeSetMayHold": "true",
        "masterEpoch": "1",
        "masterBrokerId": "1",
        "masterAddress": "10.0.0.1:10911",
        "masterHaAddress": "10.0.0.1:10912",
        "syncStateSetEpoch": "2",
    }


def test_nobody_else_gets_one(found: list[Broker]) -> None:
    assert "leaseMillis" not in fields(found[1].beat())
    found[0].epoch = 7
    assert "leaseMillis" not in fields(found[0].beat())
    found[0].epoch = 1
    found[0].stock = True
    assert fields(found[0].beat()) == {}


def test_nothing_is_written_for_a_heartbeat(found: list[Broker]) -> None:
    applied = found[0].world.leader.machine.applied
    for _ in range(20):
        for broker in found:
            broker.offset += 100
            broker.beat_all()
    assert found[0].world.leader.machine.applied == applied


def test_the_log_is_taken_as_it_is_told_even_when_it_shrank(found: list[Broker]) -> None:
    """Defects, part 2.12: a cut replica must not be elected for what it had."""
    world = found[0].world
    found[1].offset = 900
    found[1].beat()
    found[1].offset = 100
    found[1].beat()
    live = world.leader.core.context.live.get(KEY, 2)
    assert live is not None
    assert live.report == LogReport(1, 100)


def test_an_absurd_epoch_is_not_believed(found: list[Broker]) -> None:
    found[1].epoch = 2**31 - 1
    found[1].beat()
    live = found[1].world.leader.core.context.live.get(KEY, 2)
    assert live is not None
    assert live.report.epoch == limits.EPOCH_MAX


def test_a_follower_hears_and_names_the_leader() -> None:
    world = World(3)
    found = brokers(world)
    live_on(world, found, 300)
    reply = found[0].beat(to="n1")
    assert fields(reply) == {
        "isLeader": "false",
        "leaseSupported": "true",
        "controllerLeaderAddress": "10.9.0.0:9878",
        "controllerTerm": "0",
    }
    assert world.nodes["n1"].core.context.live.count == 3


def test_a_leader_that_is_not_sure_gives_no_lease() -> None:
    world = World(3)
    found = brokers(world)
    world.cut = {("n0", "n1"), ("n0", "n2"), ("n1", "n0"), ("n2", "n0")}
    world.run(450)
    token = world.send(HEARTBEAT, found[0].beat_ext(), session=101, to="n0")
    world.run(2_000)
    reply = world.answers[token]
    assert reply.code == 2007 or "leaseMillis" not in fields(reply)


def test_a_leader_that_is_not_sure_names_no_master_to_anybody() -> None:
    world = World(3)
    found = brokers(world)
    world.cut = {("n0", "n1"), ("n0", "n2"), ("n1", "n0"), ("n2", "n0")}
    world.run(450)
    token = world.send(HEARTBEAT, found[1].beat_ext(), session=102, to="n0")
    assert token not in world.answers
    world.run(2_000)
    assert "masterBrokerId" not in fields(world.answers[token])


def test_without_its_own_lease_a_leader_asks_a_majority_first() -> None:
    world = World(3)
    found = brokers(world)
    leader = world.leader
    leader.core.context.leader_until = 0
    world.tokens += 1
    from epochmq.wire.command import request

    # Given to the core alone, the node would fill in Raft's lease.
    leader.core.request(world.tokens, request(HEARTBEAT, found[0].beat_ext()), 101, world.now)
    effects = leader.core.pop_effects()
    assert [type(effect).__name__ for effect in effects] == ["ReadBarrier"]
    leader.core.read_ready(effects[0].ticket, world.now)  # type: ignore[union-attr]
    (answer,) = leader.core.pop_effects()
    assert fields(answer.reply)["leaseMillis"] == "2000"  # type: ignore[union-attr]


def test_an_unknown_broker_of_ours_is_heard_and_asked_to_register() -> None:
    world = World()
    broker = Broker(world, 4)
    reply = broker.beat()
    assert reply.code == 2010
    assert fields(reply) == {
        "isLeader": "true",
        "leaseSupported": "true",
        "controllerLeaderAddress": "10.9.0.0:9878",
        "controllerTerm": "1",
    }
    assert world.leader.core.context.live.count == 1
    assert KEY not in world.leader.machine.groups


def test_an_unknown_broker_of_others_is_heard() -> None:
    world = World()
    assert Broker(world, 4, stock=True).beat().code == 0
    assert world.leader.core.context.live.count == 1


def test_a_number_that_is_none() -> None:
    world = World()
    ext = {**NAMES, "brokerAddr": "h:1"}
    assert world.ask(HEARTBEAT, {**ext, "brokerId": "0"}).code == 2005
    assert world.ask(HEARTBEAT, {**ext, "brokerId": str(2**40)}).code == 2014
    assert world.ask(HEARTBEAT, {**ext, "brokerId": ""}).code == 2005
    assert world.leader.core.context.live.count == 0


def test_a_new_address_of_the_same_process_is_recorded(found: list[Broker]) -> None:
    found[2].address = "10.8.8.8:10911"
    found[2].beat()
    assert found[0].world.group.replicas[3].address == "10.8.8.8:10911"


def state(world: World) -> tuple[object, ...]:
    """What no word of a stranger may change."""
    group, live = world.group, world.leader.core.context.live.get(KEY, 1)
    assert live is not None
    replica = group.replicas[1]
    return (
        group.master,
        group.epoch,
        group.members,
        group.candidates,
        replica.session,
        replica.address,
        replica.unclean,
        live.session,
        live.lease_until,
        live.leased,
        live.resigned,
        live.closed,
        live.report,
        live.connection,
    )


def restarted_master(world: World) -> tuple[Broker, Broker]:
    """The master's process of before, and the one that was elected again after a crash."""
    (old,) = brokers(world, 1)
    new = Broker(world, 1)
    new.session, new.connection = "second life", 300
    old.close(refused=True)
    world.refusing.clear()
    assert new.register().code == 0
    world.run(1)
    new.epoch = world.group.epoch
    assert new.epoch == 2
    assert "leaseMillis" in fields(new.beat())
    return old, new


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize(
    "more", [{}, {"resign": "true"}, {"cleanStart": "false"}, {"leaseWanted": None}]
)
def test_a_late_heartbeat_of_a_dead_process_changes_nothing(
    is_closed: bool, more: dict[str, str | None]
) -> None:
    """Held on a half-open connection while the broker crashed, came back and was elected."""
    world = World()
    old, new = restarted_master(world)
    if is_closed:
        new.close()
    before, applied = state(world), world.leader.machine.applied
    ext = {name: text for name, text in (old.beat_ext() | more).items() if text is not None}
    reply = world.ask(HEARTBEAT, ext, session=150)
    assert reply.code == (2010 if is_closed else 2014)
    assert "leaseMillis" not in fields(reply)
    assert (state(world), world.leader.machine.applied) == (before, applied)
    world.run(1_000)
    assert world.group.epoch == new.epoch, "its lease runs still"


@pytest.mark.parametrize("resign", ["true", None])
@pytest.mark.parametrize("wanted", ["true", "false", None])
@pytest.mark.parametrize("incarnation", ["i1", "other", None])
def test_a_heartbeat_without_a_session_changes_nothing(
    found: list[Broker], resign: str | None, wanted: str | None, incarnation: str | None
) -> None:
    """Anybody can send one; RocketMQ's brokers have none, and register without one."""
    world = found[0].world
    found[0].beat()
    before = state(world)
    ext = found[0].beat_ext() | {
        "session": None,
        "resign": resign,
        "leaseWanted": wanted,
        "incarnation": incarnation,
        "brokerAddr": "10.6.6.6:10911",
    }
    world.ask(HEARTBEAT, {k: v for k, v in ext.items() if v is not None}, session=500)
    assert state(world) == before


def test_a_lease_given_is_not_forgotten_because_the_next_heartbeat_wants_none(
    found: list[Broker],
) -> None:
    world = found[0].world
    found[0].beat()
    ext = found[0].beat_ext() | {"leaseWanted": "false"}
    world.ask(HEARTBEAT, ext, session=found[0].connection)
    found[0].close()
    world.run(1_900)
    assert world.group.epoch == 1


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("more", [{}, {"resign": "true"}])
def test_what_arrives_over_an_older_connection_of_the_same_process_is_late(
    found: list[Broker], is_closed: bool, more: dict[str, str]
) -> None:
    world, older = found[0].world, found[0].connection
    found[0].connection = 200
    found[0].beat()
    if is_closed:
        found[0].close()
    before = state(world)
    reply = world.ask(HEARTBEAT, found[0].beat_ext() | more, session=older)
    assert reply.code == 0
    assert "leaseMillis" not in fields(reply)
    assert state(world) == before


def test_a_new_process_is_asked_to_register(found: list[Broker]) -> None:
    world = found[0].world
    found[0].close(refused=True)
    world.refusing.clear()
    found[0].session = "another life"
    reply = found[0].beat()
    assert reply.code == 2010
    assert "leaseMillis" not in fields(reply)
    assert found[0].register().code == 0
    assert found[0].beat().code == 0
    world.run(1)
    assert world.group.epoch == 2


def test_heartbeats_of_a_process_whose_number_another_one_registered_since(
    found: list[Broker],
) -> None:
    """A follower of the controllers learns of it too, whatever connection was first."""
    world = found[0].world
    second = Broker(world, 3)
    second.session, second.connection = "second", 50
    found[2].close()
    assert second.register().code == 0
    live = world.leader.core.context.live.get(KEY, 3)
    assert live is not None
    assert (live.session, live.connection) == ("second", 50)
    assert found[2].beat().code == 2014
    second.close()
    assert found[2].beat().code == 2010


def test_a_master_that_resigns_makes_room_at_once(found: list[Broker]) -> None:
    world = found[0].world
    for broker in found[1:]:
        broker.beat()
    found[0].beat()
    found[0].resign = True
    assert "leaseMillis" not in fields(found[0].beat())
    world.run(1)
    assert (world.group.master, world.group.epoch) == (2, 2)


def test_the_timeout_a_broker_asks_for_is_bounded(found: list[Broker]) -> None:
    world = found[0].world
    ext = found[1].beat_ext()
    for asked, given in (("1", 500), ("99999999", 300_000), ("-5", 10_000), ("4000", 4_000)):
        world.ask(HEARTBEAT, ext | {"heartbeatTimeoutMills": asked}, session=102)
        live = world.leader.core.context.live.get(KEY, 2)
        assert live is not None
        assert live.timeout_ms == given


def test_the_table_has_an_end(found: list[Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIVE_BROKERS_MAX", 3)
    assert Broker(found[0].world, 9).beat().code == 2
    assert found[0].beat().code == 0


def test_a_master_may_go_on_past_its_lease_only_where_elections_are_clean() -> None:
    """ADR 0044: an unclean one asks no member of the set."""
    found = brokers(World(enable_elect_unclean_master=True))
    found[0].world.run(100)
    answer = fields(found[0].beat())
    assert answer["leaseMillis"] == "2000"
    assert answer["wholeSetMayHold"] == "false"
