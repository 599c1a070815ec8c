"""`clusterList`: columns as RocketMQ 5.3.3 prints them."""

import asyncio

import pytest
from tests.admin.world import World

from epochmq.admin.mqadmin import mqadmin_cluster
from epochmq.admin.shared.broker_figures import BrokerFigures

HOUR_MS = 3_600_000
HEAD = (
    "#Cluster Name           #Broker Name            #BID  #Addr                  #Version"
    "              #InTPS(LOAD)                   #OutTPS(LOAD)  #Timer(Progress)      "
    "  #PCWait(ms)  #Hour         #SPACE    #ACTIVATED"
)
FIGURES = {
    "brokerActive": "true",
    "brokerVersionDesc": "V5_3_3",
    "putTps": "1.5 2.0 3.0",
    "getTransferredTps": "0.0 0.0 0.0",
    **{f"{q}ThreadPoolQueueSize": "0" for q in ("send", "pull", "ack")},
    **{f"{q}ThreadPoolQueueHeadWaitTimeMills": "0" for q in ("send", "pull", "ack")},
    "pageCacheLockTimeMills": "0",
    "earliestMessageTimeStamp": str(HOUR_MS),
    "commitLogDiskRatio": "0.17",
}


def test_a_broker_as_rocketmq_prints_it() -> None:
    broker = BrokerFigures("DefaultCluster", "broker-a", 0, "127.0.0.1:20002", FIGURES)
    assert mqadmin_cluster.base_line(broker, 3 * HOUR_MS) == (
        "DefaultCluster          broker-a                0     127.0.0.1:20002        V5_3_3     "
        "            1.50(0,0ms)               0.00(0,0ms|0,0ms)  0-0(0.0w, 0.0, 0.0)            "
        "   0  2.00          0.1700          true"
    )


def test_a_broker_that_does_not_answer_is_in_the_list() -> None:
    broker = BrokerFigures("C", "b", 1, "h:1", problem="away")
    line = mqadmin_cluster.base_line(broker, 0)
    assert "0.00(,ms)" in line
    assert line.split()[-3:] == ["0.00", "0.0000", "false"]


def test_a_broker_of_an_old_release_has_no_ack_queue() -> None:
    figures = {k: v for k, v in FIGURES.items() if not k.startswith("ack")}
    assert "(0,0ms|N,Nms)" in mqadmin_cluster.base_line(
        BrokerFigures("C", "b", 0, "h:1", figures), 0
    )


def test_rates(world: World) -> None:
    ran = world.mqadmin("clusterList")
    assert (ran.code, ran.lines[0]) == (0, HEAD)
    assert ran.lines[1].split()[:4] == ["DefaultCluster", "broker-a", "0", world.broker]
    assert len(ran.lines) == 2


def test_totals(world: World) -> None:
    ran = world.mqadmin("clusterList", "-m", "-c", "DefaultCluster")
    assert ran.lines[0] == (
        "#Cluster Name     #Broker Name                       #InTotalYest  #OutTotalYest"
        "  #InTotalToday #OutTotalToday"
    )
    assert int(ran.lines[1].split()[4]) >= 6
    (row,) = world.mqadmin("clusterList", "-o", "json").rows
    assert (row["broker"], row["address"], row["active"]) == ("broker-a", world.broker, True)


def test_an_unknown_cluster(world: World) -> None:
    ran = world.mqadmin("clusterList", "-c", "Nope")
    assert ran.code == 5
    assert "there is no cluster Nope; known to the name server: DefaultCluster" in ran.err


def test_it_repeats(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "sleep", sleep)
    ran = world.mqadmin("clusterList", "-i", "7")
    assert (ran.code, waits, len(ran.lines)) == (130, [7, 7], 4)
