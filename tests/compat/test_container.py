"""An acting master in a container hands over to the master beside it without the network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .peers import wire
from .peers.contained import Contained
from .peers.group import CLUSTER
from .peers.process import wait_until
from .test_escape import DIES, QUICK, TAKES, copied, die, info, new_topic, send, texts

COUNT = 20
GET_BROKER_CONFIG, ADD_BROKER, REMOVE_BROKER = 26, 902, 903


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[Contained]:
    with Contained(tmp_path, {**QUICK, "enableRemoteEscape": False}) as made:
        yield made


def test_what_a_slave_moves_on_goes_to_the_master_beside_it(contained: Contained) -> None:
    """And before that: removing one broker leaves the other, its clients and its entry alone."""
    master, slave, other = contained.master, contained.slave, contained.other
    members, where = contained.pairs.members, contained.container.address
    topic = new_topic(master, other)
    header = {"brokerClusterName": CLUSTER, "brokerName": DIES, "brokerId": 1}
    assert wire.call(where, REMOVE_BROKER, header).code == 0
    wait_until(lambda: members(DIES).keys() == {0}, 20, "the slave is gone")
    assert members(TAKES).keys() == {0}
    send(other, topic, "a")
    path = {"configPath": str(slave.root / "broker.properties")}
    assert wire.call(where, ADD_BROKER, path).code == 0
    wait_until(lambda: members(DIES).keys() == {0, 1}, 30, "the slave is back")

    for n in range(COUNT):
        send(master, topic, f"d{n:02}", DELAY="1")
    copied(contained.pairs)
    end = die(contained.pairs)
    wait_until(lambda: len(texts(other, topic)) > COUNT, 30, "what was due")
    assert texts(other, topic) == ["a", *(f"d{n:02}" for n in range(COUNT))]
    figures = info(slave)
    assert int(figures["epochmqEscapeNear"]) >= COUNT
    assert figures["commitLogMaxOffset"] == end  # INV-32
    shown = wire.call(where, GET_BROKER_CONFIG, {}).body.decode()
    lines = [f"# {CLUSTER}_{TAKES}_0: running", f"# {CLUSTER}_{DIES}_1: running"]
    assert shown.splitlines()[:2] == lines
    assert contained.container.process.stop() == 0
