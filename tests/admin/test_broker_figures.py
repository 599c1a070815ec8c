"""The brokers of clusters with their figures."""

import asyncio
import re

import pytest
from tests.admin.world import World

from epochmq.admin.broker_figures import Broker, brokers
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
    broker = Broker("C", "b", 0, "h:1", FIGURES)
    assert (broker.number("putTps"), broker.number("none")) == (1.25, 0)
    assert (broker.put_yesterday, broker.put_today) == (10, 100)
    assert (broker.got_yesterday, broker.got_today) == (20, 200)
    assert broker.hours_kept(2 * 3_600_000) == 1
    row = broker.row(2 * 3_600_000)
    assert (row["in_tps"], row["active"], row["problem"]) == (1.25, False, None)


@pytest.mark.parametrize(
    ("figures", "word"),
    [({"storeFenced": "fsync: EIO"}, "fenced.*EIO"), ({"storeDiskFull": "true"}, "disk is full")],
)
def test_a_store_that_takes_no_more_is_trouble(figures: dict[str, str], word: str) -> None:
    broker = Broker("C", "b", 0, "h:1", figures | {"brokerActive": "true"})
    assert re.search(word, str(broker.row(0)["problem"]))
    broker.problem = "it is away"
    assert broker.trouble == "it is away"


def test_an_empty_store_keeps_nothing() -> None:
    for figures in ({}, {"earliestMessageTimeStamp": "-1"}, {"earliestMessageTimeStamp": "x"}):
        assert Broker("C", "b", 0, "h:1", figures).hours_kept(1) == 0


def test_one_that_does_not_answer_is_not_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> list[Broker]:
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
