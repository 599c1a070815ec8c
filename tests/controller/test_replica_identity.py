"""Who a broker is, and what its registration changes."""

import pytest
from tests.controller.world import KEY, options

from epochmq.base import limits
from epochmq.base.errors import HeaderError, Refused
from epochmq.controller import replica_identity
from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica
from epochmq.controller.machine import Machine
from epochmq.controller.replica_identity import Told


@pytest.fixture
def group() -> BrokerGroup:
    known = BrokerReplica(1, "h:1", incarnation="i", session="s", ha_address="h:2")
    return BrokerGroup(*KEY, replicas={1: known}, master=1, epoch=1)


def told(**fields: object) -> Told:
    given = {"broker_id": 1, "address": "h:1", "incarnation": "i", "session": "s"}
    return Told(**(given | fields))  # type: ignore[arg-type]


def test_nothing_new_is_nothing_to_record(group: BrokerGroup) -> None:
    assert replica_identity.update_of(group, group.replicas[1], told()) is None
    assert replica_identity.update_of(group, group.replicas[1], told(session="")) is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"address": "x:1"}, {"address": "x:1", "ended": False}),
        ({"ha_address": "x:2"}, {"ha_address": "x:2"}),
        ({"learner": True}, {"learner": True}),
        ({"floor": 2}, {"floor": 2}),
        ({"session": "t"}, {"session": "t", "ended": True, "lost_tail": False}),
        ({"session": "t", "clean_start": False}, {"ended": True, "lost_tail": True}),
        ({"clean_start": False, "address": "x:1"}, {"lost_tail": False}),
        ({"incarnation": "j"}, {"incarnation": "j", "lost_tail": True, "ended": True}),
        ({"session": None, "incarnation": ""}, {"session": "", "ended": True}),
    ],
)
def test_what_is_new_is_recorded(
    group: BrokerGroup, fields: dict[str, object], expected: dict[str, object]
) -> None:
    event = replica_identity.update_of(group, group.replicas[1], told(**fields))
    assert event is not None
    assert {name: getattr(event, name) for name in expected} == expected
    assert event.ha_address in ("h:2", "x:2")


@pytest.mark.parametrize("name", ["address", "ha_address", "incarnation"])
def test_the_quick_answer_sees_whatever_is_new(group: BrokerGroup, name: str) -> None:
    same = told(ha_address="h:2")
    assert replica_identity.is_known(group.replicas[1], same)
    setattr(same, name, "new")
    assert not replica_identity.is_known(group.replicas[1], same)


def test_a_process_is_known_by_its_session_and_incarnation(group: BrokerGroup) -> None:
    replica = group.replicas[1]
    assert replica_identity.is_process(replica, told())
    assert replica_identity.is_process(replica, told(incarnation=""))
    for other in ({"session": "t"}, {"session": ""}, {"session": None}, {"incarnation": "j"}):
        assert not replica_identity.is_process(replica, told(**other))
    replica.session = ""  # a broker that knows no sessions registered
    assert replica_identity.is_process(replica, told(session="", incarnation=""))
    assert not replica_identity.is_process(replica, told())


def test_only_a_master_has_ended(group: BrokerGroup) -> None:
    group.master = None
    event = replica_identity.update_of(group, group.replicas[1], told(session="t"))
    assert event is not None
    assert not event.ended
    assert replica_identity.update_of(group, group.replicas[1], told(session=None)) is not None


def test_names_and_numbers() -> None:
    replica_identity.check_names("a", "b" * limits.NAME_LENGTH_MAX)
    for bad in ("", "b" * (limits.NAME_LENGTH_MAX + 1), "b\n2026-01-01 CRITICAL", "b\x1b[2J"):
        with pytest.raises(HeaderError):
            replica_identity.check_names("a", bad)
    replica_identity.check_words(told(ha_address="h" * limits.NAME_LENGTH_MAX))
    for name in ("ha_address", "incarnation", "session"):
        with pytest.raises(HeaderError):
            replica_identity.check_words(told(**{name: "h" * (limits.NAME_LENGTH_MAX + 1)}))
        with pytest.raises(HeaderError):
            replica_identity.check_words(told(**{name: "h\nforged"}))
    replica_identity.check_id(1)
    for number in (0, -3, limits.BROKER_ID_MAX + 1):
        with pytest.raises(Refused) as refused:
            replica_identity.check_id(number)
        assert refused.value.code == 2014


def test_one_process_a_number() -> None:
    context = ControllerContext(Machine(), options())
    live = context.live.heard(KEY, 1, 7, 0, 10_000)
    assert live is not None
    replica_identity.note(live, told())
    context.now = 1_999
    replica_identity.check_sole(context, KEY, told(), 8)
    replica_identity.check_sole(context, KEY, told(session="t"), 7)
    for other in ({"session": "t"}, {"incarnation": "j"}):
        with pytest.raises(Refused):
            replica_identity.check_sole(context, KEY, told(**other), 8)
    context.now = 2_000
    replica_identity.check_sole(context, KEY, told(session="t"), 8)
    context.now = 0
    live.closed = True
    replica_identity.check_sole(context, KEY, told(session="t"), 8)


def test_a_new_process_waits_for_the_lease_of_the_one_before(group: BrokerGroup) -> None:
    context = ControllerContext(Machine(), options())
    context.machine.groups[KEY] = group
    context.leader_since, context.now = -10_000, 0
    live = context.live.heard(KEY, 1, 7, 0, 10_000)
    assert live is not None
    replica_identity.note(live, told())
    live.leased, live.closed, live.lease_until = True, True, 2_000
    others = ({"session": "t"}, {"session": None}, {"incarnation": "j"})
    for context.now in (0, 2_099):
        replica_identity.check_successor(context, KEY, told())
        for other in others:
            with pytest.raises(Refused) as refused:
                replica_identity.check_successor(context, KEY, told(**other))
            assert refused.value.code == 2014
            assert f"for {2_100 - context.now} ms more" in refused.value.remark
    live.gone = True
    replica_identity.check_successor(context, KEY, told(session="t"))
    live.gone, context.now = False, 2_100
    replica_identity.check_successor(context, KEY, told(session="t"))


def test_a_new_leader_presumes_leases_only_of_brokers_that_use_them(group: BrokerGroup) -> None:
    context = ControllerContext(Machine(), options())
    context.machine.groups[KEY] = group
    context.leader_since, context.now = 0, 2_099
    with pytest.raises(Refused):
        replica_identity.check_successor(context, KEY, told(session="t"))
    group.master = 2
    replica_identity.check_successor(context, KEY, told(session="t"))
    group.master, group.replicas[1].session = 1, ""
    replica_identity.check_successor(context, KEY, told(session="t"))


def test_what_was_not_said_is_not_forgotten() -> None:
    context = ControllerContext(Machine(), options())
    live = context.live.heard(KEY, 1, 7, 0, 10_000)
    assert live is not None
    replica_identity.note(live, told())
    replica_identity.note(live, Told(1, "h:9"))
    assert (live.address, live.incarnation, live.session) == ("h:9", "i", "s")


def test_timeouts_are_bounded() -> None:
    context = ControllerContext(Machine(), options())
    assert [replica_identity.timeout_of(context, ms) for ms in (None, 0, 1, 5_000, 10**9)] == [
        10_000,
        10_000,
        500,
        5_000,
        300_000,
    ]
