"""Every cell of RIP-44's compatibility table, by real processes.

Four name servers: an old one (Java 4.9.7, before RIP-44), an old one with a controller beside it, a
new one with a controller inside, a new one without. An old pair of brokers and a new pair without
controller mode register with all four; in controller mode there is a pair for each. First all must
run as the table says, then all masters are killed at once, and the table says who gets another.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message

from .conftest import had
from .peers import admin, wire
from .peers.cluster import Config
from .peers.group import CLUSTER, JAVA, OURS, Server
from .peers.ports import free_broker_port, free_port
from .peers.process import is_listening, wait_until

OLD_VERSION = "4.9.7"
"""The last before RIP-44 of which Maven Central has all parts."""
OLD_HEAP = ("-Xms128m", "-Xmx384m")
READY_S = 60.0
FAILOVER_S = 30.0
NEVER_S = 6.0
"""No failover within ten times what it takes is none."""
_CLUSTER_INFO = 106

COLUMNS = {
    "old": (JAVA, ""),
    "old+controller": (JAVA, "beside"),
    "new+controller": (OURS, "inside"),
    "new": (OURS, ""),
}
"""Whose name server, and where its controller is."""
OLD, CONTROLLED, PLAIN = "old broker", "controller mode", "no controller mode"
RUNS, FAILS_OVER, STAYS_OUT = "cannot failover", "can failover", "unable to go online"
TABLE: Mapping[tuple[str, str], str] = {
    **{(OLD, column): RUNS for column in COLUMNS},
    **{(PLAIN, column): RUNS for column in COLUMNS},
    (CONTROLLED, "old"): STAYS_OUT,
    (CONTROLLED, "old+controller"): FAILS_OVER,
    (CONTROLLED, "new+controller"): FAILS_OVER,
    (CONTROLLED, "new"): STAYS_OUT,
}


@dataclass
class Pair:
    """The brokers of one group."""

    name: str
    brokers: list[Server]

    @property
    def topic(self) -> str:
        """A topic of its own."""
        return f"table_{self.name}"

    def broker(self, address: str) -> Server:
        """The one that listens there."""
        return next(server for server in self.brokers if server.address == address)


def addresses(namesrv: str, name: str) -> dict[int, str]:
    """The brokers of a group by their ids, as a name server tells."""
    with suppress(OSError):
        found = wire.call(namesrv, _CLUSTER_INFO, {}, timeout_s=3).json()["brokerAddrTable"]
        return {int(i): at for i, at in found.get(name, {}).get("brokerAddrs", {}).items()}
    return {}


class Stage:
    """All name servers, controllers and brokers of the table."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.controllers: dict[str, Server] = {}
        self.namesrvs = {column: self._namesrv(column, *COLUMNS[column]) for column in COLUMNS}
        everywhere = ";".join(server.address for server in self.namesrvs.values())
        plain: list[Config] = [
            {"brokerId": 0, "brokerRole": "ASYNC_MASTER"},
            {"brokerId": 1, "brokerRole": "SLAVE"},
        ]
        self.pairs = {
            (OLD, column): pair
            for pair in [self._pair("Old", JAVA, everywhere, plain)]
            for column in COLUMNS
        }
        for pair in [self._pair("Plain", OURS, everywhere, plain)]:
            self.pairs |= {(PLAIN, column): pair for column in COLUMNS}
        for number, column in enumerate(COLUMNS):
            self.pairs[CONTROLLED, column] = self._controlled(f"Controlled{number}", column)
        self.struck_at_s = 0.0
        self._ran: set[tuple[str, str]] = set()

    def _namesrv(self, column: str, kind: str, controller: str) -> Server:
        port = free_port()
        config: dict[str, str | int | bool] = {"listenPort": port, "bindAddress": "127.0.0.1"}
        if controller == "inside":
            config |= {"enableControllerInNamesrv": True, **self._controller(column, port)}
        elif controller:
            own = free_port()
            self.controllers[column] = Server(
                OURS,
                "controller",
                self._root / f"controller-{column}",
                own,
                self._controller(column, own),
            )
        root = self._root / f"namesrv-{column}"
        return Server(kind, "namesrv", root, port, config, version=OLD_VERSION)

    def _controller(self, column: str, port: int) -> Config:
        return {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": str(self._root / f"data-{column}"),
        }

    def _controlled(self, name: str, column: str) -> Pair:
        namesrv = self.namesrvs[column]
        # Where there is no controller, the name server is asked in vain.
        controller = self.controllers.get(column, namesrv)
        config = {
            "enableControllerMode": True,
            "controllerAddr": controller.address,
            "controllerDeployedStandAlone": column in self.controllers,
            "allAckInSyncStateSet": True,
        }
        count = 2 if TABLE[CONTROLLED, column] == FAILS_OVER else 1
        return self._pair(name, OURS, namesrv.address, [config] * count)

    def _pair(self, name: str, kind: str, namesrv: str, configs: list[Config]) -> Pair:
        brokers = [self._broker(name, n, kind, namesrv, more) for n, more in enumerate(configs)]
        return Pair(name, brokers)

    def _broker(self, name: str, number: int, kind: str, namesrv: str, more: Config) -> Server:
        port = free_broker_port()
        root = self._root / f"{name}-{number}"
        config: dict[str, str | int | bool] = {
            "brokerClusterName": CLUSTER,
            "brokerName": name,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": namesrv,
            "registerNameServerPeriod": 10_000,
            "storePathRootDir": str(root / "store"),
            "storePathCommitLog": str(root / "store" / "commitlog"),
            "mappedFileSizeCommitLog": 8 << 20,
            "mappedFileSizeConsumeQueue": 20_000,
            "maxHashSlotNum": 1000,
            "maxIndexNum": 4000,
            **more,
        }
        return Server(kind, "broker", root, port, config, heap=OLD_HEAP, version=OLD_VERSION)

    # Running -------------------------------------------------------------------------------------

    @property
    def servers(self) -> list[Server]:
        """All, in the order of their start."""
        pairs = {pair.name: pair for pair in self.pairs.values()}.values()
        brokers = [server for pair in pairs for server in pair.brokers]
        return [*self.namesrvs.values(), *self.controllers.values(), *brokers]

    def start(self) -> None:
        """Start all. Brokers of old register with name servers they find, so those are first."""
        servers = self.servers
        first = len(self.namesrvs)
        for server in servers[:first]:
            server.start()
        for server in servers[:first]:
            server.process.wait_ready(lambda at=server.port: is_listening(at), READY_S)
        for server in servers[first:]:
            server.start()

    def stop(self) -> None:
        """Kill all."""
        for server in reversed(self.servers):
            server.process.kill9()

    def known(self, row: str, column: str) -> dict[int, str]:
        """The group's brokers by ids, as the column's name server tells."""
        return addresses(self.namesrvs[column].address, self.pairs[row, column].name)

    def wait_running(self, row: str, column: str) -> None:
        """Until the name server has a master and another."""
        pair = self.pairs[row, column]
        wait_until(
            lambda: (
                len(self.known(row, column)) == len(pair.brokers) and 0 in self.known(row, column)
            ),
            READY_S,
            f"{pair.name} at the name server {column}",
        )

    def run(self, row: str, column: str) -> None:
        """Send and read through one name server, once."""
        if (row, column) in self._ran:
            return
        self.wait_running(row, column)
        topic, namesrv = self.pairs[row, column].topic, self.namesrvs[column].address
        admin.create_topic(self.known(row, column)[0], topic)
        wait_until(lambda: has_route(namesrv, topic), READY_S, "the topic's route")
        body = f"through {column}".encode()
        assert asyncio.run(send(namesrv, topic, body)) == "SEND_OK"
        wait_until(lambda: body in asyncio.run(read_all(namesrv, topic)), READY_S, "readable")
        self._ran.add((row, column))

    def strike(self) -> None:
        """Kill every master, once, and wait until those that can have another."""
        if self.struck_at_s:
            return
        living = [cell for cell, outcome in TABLE.items() if outcome != STAYS_OUT]
        for cell in living:
            self.run(*cell)
        moving = [cell for cell in living if TABLE[cell] == FAILS_OVER]
        for _, column in moving:
            wait_until(lambda at=column: self._set_size(at) == 2, READY_S, f"set of {column}")
        masters = {cell: self.known(*cell)[0] for cell in living}
        for cell, address in masters.items():
            self.pairs[cell].broker(address).process.kill9()
        self.struck_at_s = time.monotonic()
        for cell, old in masters.items():
            wait_until(
                lambda cell=cell, old=old: old not in self.known(*cell).values(),
                FAILOVER_S,
                f"{cell}: the dead master leaves the route",
            )
        for cell in moving:
            wait_until(lambda at=cell: 0 in self.known(*at), FAILOVER_S, f"{cell}: another master")

    def _set_size(self, column: str) -> int:
        controller = self.controllers.get(column, self.namesrvs[column])
        found = wire.sync_state(controller.address, self.pairs[CONTROLLED, column].name)
        return len(found["inSyncReplicas"])


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="table-") as root:
        made = had(lambda: Stage(Path(root)))
        try:
            made.start()
            yield made
        finally:
            made.stop()


async def send(namesrv: str, topic: str, body: bytes) -> str:
    """Send by our client; whose broker took it."""
    async with Producer(namesrv, "table", timeout_ms=15_000) as producer:
        result = await producer.send(Message(topic, body))
        return result.status.name


async def read_all(namesrv: str, topic: str) -> set[bytes]:
    """Every message of a topic."""
    found: set[bytes] = set()
    async with PullConsumer(namesrv, "table-check") as consumer:
        for queue in await consumer.queues(topic):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found |= {message.plain_body() for message in result.messages}
                offset = result.next_offset
    return found


def cells(*outcomes: str) -> pytest.MarkDecorator:
    """The table's cells with one of these outcomes."""
    found = [cell for cell, outcome in TABLE.items() if outcome in outcomes]
    return pytest.mark.parametrize(("row", "column"), found)


@cells(RUNS, FAILS_OVER)
def test_normal_running(stage: Stage, row: str, column: str) -> None:
    """A client that knows this name server only sends and reads."""
    stage.run(row, column)


def has_route(namesrv: str, topic: str) -> bool:
    """Whether clients are told of the topic."""
    return wire.call(namesrv, 105, {"topic": topic}).code == 0


@cells(STAYS_OUT)
def test_unable_to_go_online(stage: Stage, row: str, column: str) -> None:
    """No controller, no role: out of the route, refusing sends, and the log says why."""
    (broker,) = stage.pairs[row, column].brokers
    wait_until(
        lambda: "no active controller at" in broker.process.log.read_text(),
        READY_S,
        "the reason in the log",
    )
    assert broker.process.is_alive
    assert stage.known(row, column) == {}
    with pytest.raises(AssertionError):
        admin.send(broker.address, "AnyTopic", b"x")


@cells(FAILS_OVER)
def test_can_failover(stage: Stage, row: str, column: str) -> None:
    """The other replica is the master now, with all that was sent, and takes more."""
    stage.strike()
    topic, namesrv = stage.pairs[row, column].topic, stage.namesrvs[column].address
    assert asyncio.run(send(namesrv, topic, b"after")) == "SEND_OK"
    assert asyncio.run(read_all(namesrv, topic)) >= {f"through {column}".encode(), b"after"}


@cells(RUNS)
def test_cannot_failover(stage: Stage, row: str, column: str) -> None:
    """Long after others have a new master the slave is a slave here."""
    stage.strike()
    while time.monotonic() < stage.struck_at_s + NEVER_S:
        assert 0 not in stage.known(row, column)
        time.sleep(0.2)
    assert list(stage.known(row, column)) == [1]
    slave = stage.known(row, column)[1]
    with pytest.raises(AssertionError):
        admin.send(slave, stage.pairs[row, column].topic, b"x")


def test_every_cell_of_the_table_is_here() -> None:
    assert set(TABLE) == {(row, column) for row in (OLD, CONTROLLED, PLAIN) for column in COLUMNS}
