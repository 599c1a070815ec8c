"""The Java 5.3 push consumer in POP mode on our broker: the broker says by what it consumes."""

from __future__ import annotations

import json
from collections import Counter
from typing import ClassVar

import pytest

from .clients import JAVA_5, Client
from .contract import COUNT, expected_bodies, unique
from .drivers.driver import Driver, Event
from .peers import admin, wire
from .peers.cluster import Cluster

SET_MESSAGE_REQUEST_MODE = 401


def popping(cluster: Cluster, name: str, *, sharing: int = 0) -> tuple[str, str]:
    """A topic of four queues and a group that pops it."""
    topic = admin.create_topic(cluster.broker_addr, unique(f"Pop_{name}"))
    group = admin.set_group(cluster.broker_addr, unique(f"G_pop_{name}"), 16)
    body = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": sharing}
    answer = wire.call(cluster.broker_addr, SET_MESSAGE_REQUEST_MODE, {}, json.dumps(body).encode())
    assert answer.code == 0, answer
    return topic, group


class TestJavaPop:
    client: ClassVar[Client] = JAVA_5

    @pytest.mark.parametrize("sharing", [0, 1])
    def test_each_message_once(self, cluster: Cluster, driver: Driver, sharing: int) -> None:
        topic, group = popping(cluster, f"each{sharing}", sharing=sharing)
        where = (cluster.namesrv_addr, topic)
        driver.run("send", *where, count=COUNT, prefix="pop", tags="A,B")
        outcome = driver.run(
            "push", *where, group=group, pop=True, members=3, count=COUNT, linger_ms=3000
        )
        assert Counter(outcome.bodies) == Counter(expected_bodies("pop"))
        assert all("POP_CK" in event["props"] for event in outcome.received)

    def test_only_the_tags_wanted(self, cluster: Cluster, driver: Driver) -> None:
        topic, group = popping(cluster, "tags")
        where = (cluster.namesrv_addr, topic)
        driver.run("send", *where, count=COUNT, prefix="tag", tags="A,B")
        outcome = driver.run(
            "push", *where, group=group, pop=True, filter="A", count=COUNT // 2, linger_ms=2000
        )
        assert Counter(outcome.bodies) == Counter(expected_bodies("tag")[::2])

    @pytest.mark.slow
    def test_a_message_that_fails_comes_again(self, cluster: Cluster, driver: Driver) -> None:
        """After 10 s, RocketMQ's first delay, and some seconds of reviving."""
        topic, group = popping(cluster, "fails")
        where = (cluster.namesrv_addr, topic)
        driver.run("send", *where, count=1, prefix="bad")
        outcome = driver.run(
            "push", *where, group=group, pop=True, fail=True, count=2, timeout_ms=50_000
        )
        first, second = outcome.received[:2]
        assert (first["reconsume"], second["reconsume"]) == (0, 1)
        assert first["topic"] == second["topic"] == topic
        assert _gap_ms(first, second) > 9_000


def _gap_ms(first: Event, second: Event) -> int:
    return int(second["at_ms"]) - int(first["at_ms"])
