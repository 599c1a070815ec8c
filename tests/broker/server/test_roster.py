"""Which brokers may live beside each other, and in which order they stop."""

import pytest

from epochmq.base.errors import Refused
from epochmq.broker.server import roster as core
from epochmq.broker.server.container_broker import InnerBrokerId
from epochmq.broker.server.roster import Inner, InnerBrokerState, Roster
from epochmq.wire.codes import ResponseCode


def inner(name: str, *ports: int, number: int = 0, folder: str = "") -> Inner:
    return Inner(
        InnerBrokerId("c", name, number),
        path=f"/conf/{name}-{number}",
        is_slave=number > 0,
        ports=frozenset(ports),
        folders=(folder or f"/data/{name}-{number}",),
    )


def refusal(roster: Roster, new: Inner) -> str:
    with pytest.raises(Refused) as refused:
        roster.add(new)
    return refused.value.remark


def running(*inners: Inner) -> Roster:
    roster = Roster(10811)
    for each in inners:
        roster.add(each)
        roster.started(each.identity)
    return roster


def test_from_added_to_gone() -> None:
    roster = Roster(10811)
    a = inner("a", 1)
    roster.add(a)
    assert roster.statistics() == {"c_a_0": "starting"}
    assert roster.running() == []
    roster.started(a.identity)
    assert roster.running() == [a]
    assert roster.remove(a.identity)
    assert a.state is InnerBrokerState.STOPPING
    roster.gone(a.identity)
    assert roster.statistics() == {}


def test_the_same_broker_twice() -> None:
    roster = running(inner("a", 1))
    assert "c_a_0 is running already, from /conf/a-0" in refusal(roster, inner("a", 2))
    roster.add(inner("a", 3, number=1))


def test_a_port_belongs_to_one() -> None:
    roster = running(inner("a", 1, 2))
    assert "port 2 is that of broker c_a_0" in refusal(roster, inner("b", 2, 3))
    assert "port 10811 is the container's own" in refusal(roster, inner("b", 10811))


@pytest.mark.parametrize(("one", "other"), [("/d", "/d"), ("/d", "/d/b"), ("/d/a/b", "/d/a")])
def test_a_store_belongs_to_one(one: str, other: str) -> None:
    roster = running(inner("a", folder=one))
    assert f"{other} of broker c_b_0 and {one} of" in refusal(roster, inner("b", folder=other))


def test_names_that_only_begin_alike_are_two_stores() -> None:
    running(inner("a", folder="/d/store"), inner("b", folder="/d/store-2"))


def test_one_that_failed_holds_nothing_and_may_come_again() -> None:
    roster = Roster(10811)
    a = inner("a", 1)
    roster.add(a)
    roster.failed(a.identity, "no\ndisk")
    assert roster.statistics() == {"c_a_0": "failed no disk"}
    roster.add(inner("b", 1, folder="/data/a-0"))
    assert "port 1" in refusal(roster, inner("a", 1))
    roster.add(inner("a", 2, folder="/data/new"))
    assert roster.statistics()["c_a_0"] == "starting"


def test_removing() -> None:
    roster = Roster(10811)
    nobody = InnerBrokerId("c", "x", 0)
    with pytest.raises(Refused) as refused:
        roster.remove(nobody)
    assert refused.value.code == ResponseCode.BROKER_NOT_EXIST
    a = inner("a", 1)
    roster.add(a)
    with pytest.raises(Refused, match="is starting; try again"):
        roster.remove(a.identity)
    roster.failed(a.identity, "")
    assert not roster.remove(a.identity)
    assert roster.statistics() == {}


def test_slaves_stop_first_and_the_last_before_the_others() -> None:
    masters = inner("a"), inner("b")
    slaves = inner("x", number=1), inner("y", number=2)
    roster = running(masters[0], slaves[0], masters[1], slaves[1])
    order = [slaves[1], slaves[0], masters[1], masters[0]]
    assert roster.stop_order() == [each.identity for each in order]


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "INNER_BROKERS_MAX", 1)
    roster = running(inner("a"))
    assert "at most 1 brokers" in refusal(roster, inner("b"))
