"""lockInStrictMode with three replicas: a lock outlives its master, and no part of the name servers
makes two of the group give locks (INV-31, INV-34). Each takes what a group needs to come online.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from .contract import unique
from .peers import admin, wire
from .peers.group import Server
from .peers.pairs import Pairs
from .peers.parted import Parted
from .peers.process import wait_until
from .test_acting_master import figures, members, route, stands_in

NAME = "broker-a"
STRICT = {"lockInStrictMode": True, "mappedFileSizeCommitLog": 8 << 20}
WAIT_MAX_S = 60.0
CONFIRMED_S = 3.0
"""Longer than the confirmations that a slave waits for."""
LOOKS = 20
_LOCK, _UNLOCK, _TOPIC = 41, 42, 351


def body(topic: str, client: str, queue: int) -> bytes:
    queues = [{"topic": topic, "brokerName": NAME, "queueId": queue}]
    wanted = {"consumerGroup": "G", "clientId": client, "mqSet": queues, "onlyThisBroker": False}
    return json.dumps(wanted).encode()


def gets(broker: Server, topic: str, client: str, queue: int = 0) -> bool:
    """Whether the client has the queue now, by this broker's word."""
    with suppress(OSError):
        answer = wire.call(broker.address, _LOCK, {}, body(topic, client, queue))
        return answer.code == 0 and len(answer.json()["lockOKMQSet"]) == 1
    return False


def nobody_gives(brokers: Sequence[Server], topic: str, client: str, queue: int = 0) -> None:
    for broker in brokers:
        assert not gets(broker, topic, client, queue), (broker.root.name, client)


def role(broker: Server) -> str:
    with suppress(OSError):
        return str(figures(broker.address)["epochmqRole"])
    return ""


def make_topic(brokers: Sequence[Server]) -> str:
    """A topic that all of them have."""
    topic = admin.create_topic(brokers[0].address, unique("strict"))
    for broker in brokers:
        wait_until(partial(has, broker, topic), WAIT_MAX_S, "all have the topic")
    return topic


def has(broker: Server, topic: str) -> bool:
    return wire.call(broker.address, _TOPIC, {"topic": topic}).code == 0


def knows(namesrv: Server, wanted: dict[int, str]) -> bool:
    return members(namesrv.address, NAME) == wanted


def shows(namesrv: Server, topic: str, wanted: dict[int, str], perm: int) -> bool:
    return route(namesrv.address, topic) == (wanted, perm)


def test_a_lock_outlives_its_master(tmp_path: Path) -> None:
    """kill -9 of the master: its client goes on at the acting master, and no other client does."""
    with Pairs(names=[NAME], slaves=2, root=tmp_path, broker_config=STRICT) as pairs:
        master, first, second = group = pairs.group(NAME)
        topic = make_topic(group)
        wait_until(lambda: gets(master, topic, "one"), WAIT_MAX_S, "a majority votes")
        nobody_gives(group, topic, "two")
        master.process.kill9()

        def goes_on() -> bool:
            nobody_gives([first, second], topic, "two")
            return gets(first, topic, "one")

        wait_until(goes_on, WAIT_MAX_S, "the client goes on at the acting master")
        assert stands_in(first)
        nobody_gives([first, second], topic, "two")
        assert gets(first, topic, "one", 1)
        nobody_gives([first, second], topic, "two", 1)
        assert wire.call(first.address, _UNLOCK, {}, body(topic, "one", 1)).code == 0
        wait_until(lambda: gets(first, topic, "two", 1), WAIT_MAX_S, "what was given back")
        nobody_gives([first, second], topic, "one", 1)

        master.start()
        wait_until(lambda: role(master) == "MASTER", WAIT_MAX_S, "the master is back")
        wait_until(lambda: gets(master, topic, "one"), WAIT_MAX_S, "the lock of before its death")
        wait_until(lambda: gets(master, topic, "two", 1), WAIT_MAX_S, "the acting master's lock")
        nobody_gives(group, topic, "two")
        nobody_gives(group, topic, "one", 1)


def test_name_servers_in_a_partition_make_no_second_stand_in(tmp_path: Path) -> None:
    """They see different parts of a living group; then its master stands still, and wakes up."""
    with Parted(NAME, root=tmp_path, broker_config=STRICT) as group:
        master, first, second = group.brokers
        everybody = {number: broker.address for number, broker in enumerate(group.brokers)}
        for server in group.namesrvs:
            wait_until(partial(knows, server, everybody), WAIT_MAX_S, "all name servers know all")
        topic = make_topic(group.brokers)
        wait_until(lambda: gets(master, topic, "one"), WAIT_MAX_S, "a majority votes")

        group.cut(0, 0, 1)
        group.cut(1, 0)
        few, more, _ = group.namesrvs
        last = {0: second.address}
        wait_until(partial(shows, few, topic, last, 4), WAIT_MAX_S, "only the last")
        two_left = {1: first.address, 2: second.address}
        wait_until(partial(knows, more, two_left), WAIT_MAX_S, "two without a master")
        cut_at = time.monotonic()

        def as_before() -> bool:
            assert [role(each) for each in group.brokers] == ["MASTER", "SLAVE", "SLAVE"]
            nobody_gives([first, second], topic, "two")
            nobody_gives([first, second], topic, "one")
            return time.monotonic() - cut_at > CONFIRMED_S

        wait_until(as_before, WAIT_MAX_S, "so long that a slave had acted as master")
        assert gets(master, topic, "one")
        assert not gets(master, topic, "two")

        os.kill(master.process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: gets(first, topic, "one"), WAIT_MAX_S, "the first slave acts")
            assert not stands_in(second)
            nobody_gives([first, second], topic, "two")
        finally:
            os.kill(master.process.pid, signal.SIGCONT)
        for _ in range(LOOKS):  # before and after it knows that a slave acted for it
            nobody_gives(group.brokers, topic, "two")
            assert not stands_in(second)

        group.heal()
        wait_until(lambda: role(master) == "MASTER", WAIT_MAX_S, "the master is back")
        wait_until(lambda: not stands_in(first), WAIT_MAX_S, "one serves")
        wait_until(lambda: gets(master, topic, "one"), WAIT_MAX_S, "the lock is where it was")
        nobody_gives(group.brokers, topic, "two")
        for server in group.namesrvs:
            wait_until(partial(shows, server, topic, everybody, 6), WAIT_MAX_S, "the master")
