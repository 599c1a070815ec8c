"""The brokers of clusters with their figures."""

import asyncio

import pytest
from tests.admin.world import World

from epochmq.admin.shared.broker_figures import BrokerFigures, _compare_with_sets, brokers
from epochmq.base.errors import NotReachable
from epochmq.client.aio import Admin

FIGURES = {
    "putTps": "1.25 2.5 3.0",
    "msgPutTotalYesterdayMorning": "1",
    "msgPutTotalTodayMorning": "11",
    "msgPutTotalTodayNow": "111",
    "msgGetTotalYesterdayMorning": "2",
    "msgGetTotalTodayMorning": "22",
    "msgGetTotalTodayNow": "222",
    "earliestMessageTimeStamp": "3600000",
}


def test_figures() -> None:
    broker = BrokerFigures("C", "b", 0, "h:1", FIGURES)
    assert (broker.number("putTps"), broker.number("none")) == (1.25, 0)
    assert (broker.put_yesterday, broker.put_today) == (10, 100)
    assert (broker.got_yesterday, broker.got_today) == (20, 200)
    assert broker.hours_kept(2 * 3_600_000) == 1
    row = broker.row(2 * 3_600_000)
    assert (row["in_tps"], row["active"], row["problem"]) == (1.25, False, None)


SLAVE = {"epochmqProblem": "", "epochmqRole": "SLAVE", "epochmqBrokerId": "2"}
MASTER = {
    "epochmqProblem": "",
    "epochmqRole": "MASTER",
    "epochmqBrokerId": "1",
    "epochmqSyncStateSet": "1,2",
}


@pytest.mark.parametrize(
    ("broker_id", "figures", "trouble"),
    [
        (0, MASTER, None),
        (0, MASTER | {"epochmqProblem": "the disk is full"}, "the disk is full"),
        (2, SLAVE | {"brokerActive": "false"}, None),
        (1, {"brokerActive": "false"}, None),
        (0, {"brokerActive": "false"}, "it is not active"),
        (0, {"brokerActive": "true"}, None),
    ],
)
def test_a_broker_says_itself_what_is_wrong(
    broker_id: int, figures: dict[str, str], trouble: str | None
) -> None:
    """RocketMQ's broker does not: a slave of it is never active, which says nothing of its
    health."""
    broker = BrokerFigures("C", "b", broker_id, "h:1", figures)
    assert broker.trouble == broker.row(0)["problem"] == trouble
    broker.problem = "it is away"
    assert broker.trouble == "it is away"


def test_a_slave_that_its_master_counts_out() -> None:
    master = BrokerFigures("C", "b", 0, "h:1", MASTER)
    inside, outside = (
        BrokerFigures("C", "b", number, "h:2", SLAVE | {"epochmqBrokerId": str(number)})
        for number in (2, 3)
    )
    learning = SLAVE | {"epochmqRole": "LEARNER"}
    learner = BrokerFigures("C", "b", 4, "h:4", learning | {"epochmqBrokerId": "4"})
    _compare_with_sets([master, inside, outside, learner])
    assert [b.trouble is None for b in (master, inside, outside, learner)] == [
        True, True, False, True,
    ]  # fmt: skip


def test_an_empty_store_keeps_nothing() -> None:
    for figures in ({}, {"earliestMessageTimeStamp": "-1"}, {"earliestMessageTimeStamp": "x"}):
        assert BrokerFigures("C", "b", 0, "h:1", figures).hours_kept(1) == 0


def test_one_that_does_not_answer_is_not_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> list[BrokerFigures]:
        async with Admin(world.cluster.namesrv_addr) as admin:
            return await brokers(admin, "DefaultCluster")

    async def away(self: Admin, address: str) -> dict[str, str]:
        raise NotReachable(f"{address} is away")

    (broker,) = asyncio.run(ask())
    assert (broker.name, broker.broker_id, broker.address) == ("broker-a", 0, world.broker)
    assert broker.figures["brokerActive"] == "true"
    monkeypatch.setattr(Admin, "runtime_info", away)
    (broker,) = asyncio.run(ask())
    assert broker.problem == f"{world.broker} is away"
