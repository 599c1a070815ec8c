"""A cluster for tests: real servers in this process, files in memory, faults on demand."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from epochmq.base.errors import NotFound, NotReachable, PortInUse, UsageError
from epochmq.base.options import load
from epochmq.broker.config.ignored_keys import IGNORED
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.server.broker_server import Broker
from epochmq.client.aio import Admin
from epochmq.client.sync import PullConsumer
from epochmq.controller.options import ControllerOptions
from epochmq.controller.server.controller_server import EmbeddedController
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import StoredMessage
from epochmq.model.topic import TopicConfig
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime import loop_thread
from epochmq.runtime.listen import listen
from epochmq.runtime.rng import RealRng
from epochmq.testing.killable_disk import KillableDisk
from epochmq.testing.server_thread import Served, ServerThread
from epochmq.testing.shifted_clock import ShiftedClock

HOST = "127.0.0.1"
CLUSTER, GROUP = "DefaultCluster", "broker-a"
NAMESRV, MASTER, SLAVE = "namesrv", "master", "slave"
CONTROLLERS = 3
BROKERS_MAX = 9
WAIT_S = 10.0
"""How long a call waits for a state of the cluster, unless told otherwise."""
_LOOK_S = 0.002
_MEMORY = "/dev/shm"
_MEMORY_BYTES_MIN = 256 << 20
_FIRST_PORT, _PORTS = 12_000, 18_000
"""Below the ports that Linux gives to outgoing connections."""
_TRIES = 5

_BROKER: Mapping[str, str] = {
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "120000",
    "maxHashSlotNum": "20000",
    "maxIndexNum": "80000",
    "enablePropertyFilter": "true",
    "transactionCheckInterval": "1000",
    "fastListenPort": "-1",
}
"""Small files, and quick checks of transactions."""
_REPLICATED: Mapping[str, str] = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
}
_CONTROLLER: Mapping[str, str] = {
    "electionTimeoutMillis": "120",
    "raftHeartbeatMillis": "30",
    "firstElectionWindowMillis": "200",
    "leaseMillis": "1000",
    "brokerTimeoutMillis": "3000",
    "controllerBootstrap": "true",
}

T = TypeVar("T")


class MiniCluster:
    """A cluster of EpochMQ on loopback, in this process.

    Use it as `with MiniCluster() as cluster:` or `async with`, or call `start` and `stop`. Clients
    connect to `cluster.namesrv`, in any thread and on any event loop. The methods block, most for
    milliseconds; a coroutine may call those that wait with `asyncio.to_thread`.

    Servers are named "namesrv", "controller-1" and so on, "broker-1" and so on. Where a method
    takes the name of a server, "master" stands for the present master, and "slave" for one of the
    others.

    Args:
        brokers: number of brokers in the one group. With more than one there are three controllers,
            which elect the master, and a message counts as sent when all brokers in sync have it.
        options: options of the brokers by RocketMQ's names, such as
            `{"autoCreateTopicEnable": "false"}`; see docs/OPTIONS.md.
        directory: where the files are; None means a temporary directory, in memory where the system
            has one (/dev/shm), which `stop` removes.

    Raises:
        UsageError: `brokers` is not from 1 to 9.
        ConfigError: an option does not exist, or has an impossible value.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        options: Mapping[str, str] | None = None,
        directory: Path | str | None = None,
    ) -> None:
        if not 1 <= brokers <= BROKERS_MAX:
            raise UsageError(f"brokers is {brokers}; from 1 to {BROKERS_MAX} can be")
        self.brokers = brokers
        self.clock: ShiftedClock = ShiftedClock()
        """The clocks of all servers."""
        self.options: Mapping[str, str] = dict(options or {})
        """The given options of the brokers."""
        self._given_directory = None if directory is None else Path(directory)
        self.directory: Path = Path()
        """Where the files of each server are, while the cluster runs."""
        self._ports: list[int] = []
        self._threads: dict[str, ServerThread] = {}
        self._nodes: dict[str, BrokerContext] = {}
        self._broker_options(1, {})  # a wrong option is an error of this call

    # Start and stop --------------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        """The address of the name server, for clients."""
        if not self._ports:
            raise UsageError("the cluster has not started; use `with MiniCluster() as cluster:`")
        return f"{HOST}:{self._ports[0]}"

    @property
    def servers(self) -> list[str]:
        """The names of the servers that run, paused and cut ones included."""
        return [name for name, thread in self._threads.items() if thread.is_running]

    def start(self) -> None:
        """Start all servers; return when messages can be sent and, with replicas, all are in sync.

        Raises:
            NotReachable: the cluster is not ready in time.
            EnvironmentFault: a server does not start.
        """
        if self._threads:
            raise UsageError("the cluster was started before")
        for attempt in range(1, _TRIES + 1):
            try:
                self._start_all()
                return
            except PortInUse:
                self.stop()
                if attempt == _TRIES:
                    raise
            except BaseException:
                self.stop()
                raise

    def _start_all(self) -> None:
        self.directory = self._given_directory or _temporary()
        count = CONTROLLERS if self.brokers > 1 else 0
        self._ports = _free_ports(1 + count + 2 * self.brokers)
        names = [f"controller-{number}" for number in range(1, count + 1)]
        names += [f"broker-{number}" for number in range(1, self.brokers + 1)]
        self.start_server(NAMESRV)
        with ThreadPoolExecutor(len(names)) as pool:
            for _ in pool.map(self.start_server, names):
                pass
        self.wait_until_ready()

    def stop(self) -> None:
        """Stop all servers, and remove the temporary directory; repeated calls do nothing."""
        for name in reversed(list(self._threads)):
            self._threads[name].stop()
        self._threads.clear()
        self._nodes.clear()
        if self._given_directory is None and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)
        self.directory = Path()
        self._ports = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    # Faults ----------------------------------------------------------------------------------

    def kill(self, server: str = MASTER) -> str:
        """End a server as SIGKILL would: no farewell, no last write; its files stay.

        Returns:
            The name of the server, for `start_server`.

        Raises:
            NotFound: no such server runs.
        """
        thread = self._thread(server)
        thread.kill()
        return thread.name

    def stop_server(self, server: str = MASTER) -> str:
        """Stop a server cleanly; return its name. Raises as `kill`."""
        thread = self._thread(server)
        thread.stop()
        return thread.name

    def start_server(self, name: str) -> None:
        """Start a server that was killed or stopped, with its files and its ports.

        Args:
            name: "namesrv", "controller-1", "broker-1" and so on.

        Raises:
            NotFound: the cluster has no server of that name.
            UsageError: the server runs.
        """
        known = self._threads.get(name)
        if known is not None and known.is_running:
            raise UsageError(f"{name} runs")
        thread = self._threads[name] = self._new_thread(name)
        thread.start()

    def pause(self, server: str = MASTER) -> str:
        """Let a server stand still as after SIGSTOP; return its name. Raises as `kill`.

        A broker that is paused for longer than its lease (1 s) is no longer master when it goes on.
        """
        thread = self._thread(server)
        thread.pause()
        return thread.name

    def resume(self, server: str) -> None:
        """Let a paused server go on. Raises as `kill`."""
        self._thread(server).resume()

    def cut(self, server: str = MASTER) -> str:
        """Cut a server off from all others and from all clients; return its name.

        Its connections end, and nobody can connect until `mend`. Raises as `kill`.
        """
        thread = self._thread(server)
        thread.cut()
        return thread.name

    def mend(self, server: str) -> None:
        """Connect a server again that was cut off. Raises as `kill`."""
        self._thread(server).mend()

    def advance_clock(self, seconds: float) -> None:
        """Move the wall clock of name server and brokers; negative values move it back.

        Delayed and timed messages become due, retries too, and transactions are old enough to be
        checked. Timeouts are not affected: leases, invisible times of POP and connections run on
        the monotonic clock. The clock of the clients does not change.
        """
        self.clock.advance(round(seconds * 1000))

    # Topics, groups and messages ---------------------------------------------------------------

    def create_topic(self, topic: str, queues: int = 4, *, type: str = "NORMAL") -> None:
        """Create a topic.

        Args:
            topic: its name.
            queues: number of its queues.
            type: "NORMAL", "FIFO", "DELAY" or "TRANSACTION".
        """
        config = TopicConfig(topic, queues, queues)
        attributes = {"+message.type": type}

        async def create() -> None:
            async with Admin(self.namesrv) as admin:
                await admin.create_topic(config, cluster=CLUSTER, attributes=attributes)

        loop_thread.run(create())

    def create_group(self, group: str, *, retries: int = 16) -> None:
        """Create a consumer group whose messages are retried `retries` times.

        A consumer that says its own limit is retried that often instead.
        """
        config = SubscriptionGroupConfig(group, retry_max_times=retries)
        address = broker_context(self).address

        async def create() -> None:
            async with Admin(self.namesrv) as admin:
                await admin.put_group(address, config)

        loop_thread.run(create())

    def messages(self, topic: str) -> list[StoredMessage]:
        """Return all messages of a topic, queue by queue; nothing is consumed.

        Retry and dead-letter topics are called "%RETRY%group" and "%DLQ%group". A topic that does
        not exist has no messages.
        """
        found: list[StoredMessage] = []
        with PullConsumer(self.namesrv, "epochmq-testing") as consumer:
            try:
                queues = consumer.queues(topic)
            except NotFound:
                return []
            for queue in queues:
                offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
                while offset < end:
                    pulled = consumer.pull(queue, offset)
                    found += pulled.messages
                    if pulled.next_offset <= offset:
                        break
                    offset = pulled.next_offset
        return found

    # State -----------------------------------------------------------------------------------

    @property
    def master(self) -> str | None:
        """The name of the broker that accepts messages now; None while there is none."""
        for name, node in list(self._nodes.items()):
            if self._threads[name].is_running and node.serving.rights.writable:
                return name
        return None

    def wait_for_master(self, timeout: float = WAIT_S) -> str:
        """Wait until a broker accepts messages; return its name.

        Args:
            timeout: seconds to wait.

        Raises:
            NotReachable: there is none in time.
        """
        self._wait(lambda: self.master is not None, timeout, "no broker is master")
        return self.master or self.wait_for_master(timeout)

    def wait_until_ready(self, timeout: float = WAIT_S) -> None:
        """Wait until there is a master, and all brokers that run are in sync with it.

        Args:
            timeout: seconds to wait.

        Raises:
            NotReachable: that is not so in time.
        """
        self._wait(self._is_ready, timeout, "the brokers are not in sync")

    def _is_ready(self) -> bool:
        master = self.master
        if master is None:
            return False
        running = [name for name in self._nodes if self._threads[name].is_running]
        members = self._nodes[master].group_position.members
        return self.brokers == 1 or len(members) == len(running)

    def _wait(self, holds: Callable[[], bool], timeout: float, what: str) -> None:
        until = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > until:
                raise NotReachable(f"{what} after {timeout:g} s; running: {self.servers}")
            time.sleep(_LOOK_S)

    def _thread(self, server: str) -> ServerThread:
        name: str | None = server
        if server == MASTER:
            name = self.master
        elif server == SLAVE:
            running = [n for n in self._nodes if self._threads[n].is_running]
            name = next((n for n in running if n != self.master), None)
        thread = None if name is None else self._threads.get(name)
        if thread is None or not thread.is_running:
            raise NotFound(f"no {server} runs; running: {', '.join(self.servers) or 'nothing'}")
        return thread

    # Making servers --------------------------------------------------------------------------

    def _new_thread(self, name: str) -> ServerThread:
        kind, _, number = name.partition("-")
        if name == NAMESRV:
            return ServerThread(name, self._make_name_server)
        if kind == "controller" and number in map(str, range(1, len(self._controller_ports()) + 1)):
            return ServerThread(name, lambda: self._make_controller(int(number)))
        if kind == "broker" and number in map(str, range(1, self.brokers + 1)):
            disk = KillableDisk(str(self.directory / name))
            return ServerThread(name, lambda: self._make_broker(name, int(number), disk), disk.kill)
        raise NotFound(f"this cluster has no server {name!r}; it has {', '.join(self._threads)}")

    def _make_name_server(self) -> Served:
        options = {
            "listenPort": str(self._ports[0]),
            "bindAddress": HOST,
            "kvConfigPath": str(self.directory / "kvConfig.json"),
        }
        return NameServer(_read(NamesrvOptions, options), clock=self.clock)

    def _make_controller(self, number: int) -> Served:
        options = {
            **_CONTROLLER,
            "controllerDLegerGroup": "testing",
            "controllerDLegerPeers": ";".join(
                f"n{each}-{HOST}:{port}" for each, port in enumerate(self._controller_ports(), 1)
            ),
            "controllerDLegerSelfId": f"n{number}",
            "controllerStorePath": str(self.directory / f"controller-{number}"),
        }
        return EmbeddedController(_read(ControllerOptions, options), shared_port=0)

    def _make_broker(self, name: str, number: int, disk: KillableDisk) -> Served:
        port, ha_port = self._ports[-2 * number], self._ports[-2 * number + 1]
        addresses = {
            "bindAddress": HOST,
            "brokerIP1": HOST,
            "brokerIP2": HOST,
            "listenPort": str(port),
            "haListenPort": str(ha_port),
            "namesrvAddr": self.namesrv,
            "storePathRootDir": disk.root,
        }
        broker = Broker(
            self._broker_options(number, addresses), disk=disk, clock=self.clock, label=name
        )
        return _KnownBroker(broker, lambda node: self._nodes.__setitem__(name, node))

    def _broker_options(self, number: int, addresses: Mapping[str, str]) -> BrokerOptions:
        replicated: dict[str, str] = {}
        if self.brokers > 1:
            controllers = ";".join(f"{HOST}:{port}" for port in self._controller_ports())
            replicated = {**_REPLICATED, "controllerAddr": controllers or f"{HOST}:1"}
            replicated["minInSyncReplicas"] = str(self.brokers // 2 + 1)
        names = {"brokerClusterName": CLUSTER, "brokerName": GROUP}
        return _read(BrokerOptions, {**_BROKER, **replicated, **names, **self.options, **addresses})

    def _controller_ports(self) -> list[int]:
        return self._ports[1 : 1 + CONTROLLERS] if self.brokers > 1 else []


class _KnownBroker:
    """A broker whose state is published when it serves."""

    def __init__(self, broker: Broker, publish: Callable[[BrokerContext], None]) -> None:
        self._broker = broker
        self._publish = publish

    async def start(self) -> None:
        await self._broker.start()
        self._publish(self._broker.node)

    async def stop(self) -> None:
        await self._broker.stop()


def _read(cls: type[T], mapping: Mapping[str, str]) -> T:
    """Return the options of a server; RocketMQ's keys without effect are accepted."""
    options: T = load((cls,), mapping, ignored=IGNORED)[0]
    return options


def _temporary() -> Path:
    """Return a new temporary directory, in memory if there is room."""
    folder = None
    if os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK):
        if shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES_MIN:
            folder = _MEMORY
    return Path(tempfile.mkdtemp(prefix="epochmq-testing-", dir=folder))


def _free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens now, in a random block."""
    rng, ports = RealRng(), list[int]()
    while len(ports) < count:
        port = _FIRST_PORT + rng.randrange(_PORTS)
        if port in ports:
            continue
        try:
            listen(HOST, port).close()
        except PortInUse:
            continue
        ports.append(port)
    return ports


def broker_context(cluster: MiniCluster, server: str = MASTER) -> BrokerContext:
    """Return the state of a broker of `cluster`; the event loop of the broker runs in a thread.

    Not a method of the cluster, because it is for tests of EpochMQ itself.
    """
    return cluster._nodes[cluster._thread(server).name]


def call_broker(cluster: MiniCluster, function: Callable[[], T], server: str = MASTER) -> T:
    """Call `function` on the event loop of a broker of `cluster`; for tests of EpochMQ itself."""
    return cluster._thread(server).call(function)
