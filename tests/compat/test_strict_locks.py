"""lockInStrictMode in a real pair: both members vote, none forgets, one alone gives no lock.

Long for one test, because a pair takes eight seconds to come online, and once is enough.
"""

from __future__ import annotations

import json
from pathlib import Path

from .contract import unique
from .peers import admin, wire
from .peers.group import Server
from .peers.pairs import Pairs
from .peers.process import wait_until
from .test_escape import DIES, copied, info

LOCK, UNLOCK = 41, 42


def body(topic: str, client: str) -> bytes:
    queue = {"topic": topic, "brokerName": DIES, "queueId": 0}
    wanted = {"consumerGroup": "G", "clientId": client, "mqSet": [queue], "onlyThisBroker": False}
    return json.dumps(wanted).encode()


def locks(broker: Server, topic: str, client: str) -> bool:
    """Whether the client has the queue now."""
    answer = wire.call(broker.address, LOCK, {}, body(topic, client))
    assert answer.code == 0, answer
    return len(answer.json()["lockOKMQSet"]) == 1


def test_both_of_two_vote(tmp_path: Path) -> None:
    strict = {"lockInStrictMode": True}
    with Pairs(names=[DIES], root=tmp_path, broker_config=strict) as pairs:
        master, slave = pairs.masters[DIES], pairs.slaves[DIES]
        topic = admin.create_topic(master.address, unique("strict"))
        copied(pairs)
        wait_until(lambda: locks(master, topic, "one"), 20, "both know each other")
        assert not locks(master, topic, "two")
        for client in ("one", "two"):
            assert wire.call(slave.address, LOCK, {}, body(topic, client)).code == 1

        slave.process.kill9()
        assert not locks(master, topic, "one")  # one of two is not a majority
        assert not locks(master, topic, "two")
        slave.start()
        pairs.wait_ready()
        wait_until(lambda: locks(master, topic, "one"), 20, "the slave votes again, for the same")
        assert not locks(master, topic, "two")

        assert wire.call(master.address, UNLOCK, {}, body(topic, "one")).code == 0
        wait_until(lambda: locks(master, topic, "two"), 20, "given back at both")
        pairs.namesrv.process.kill9()
        wait_until(lambda: "failed=1" in info(master)["epochmqNameServersSaid"], 20, "no answers")
        assert locks(master, topic, "two")  # the members know each other still
        assert not locks(master, topic, "one")
