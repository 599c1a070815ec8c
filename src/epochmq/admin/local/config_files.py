"""The configuration (properties) files of a local cluster, written once and then the user's.

One broker: namesrv.properties and broker.properties. Replicas: namesrv.properties, controller-0 to
controller-2, relay and broker-0 upwards, all brokers in one group in controller mode. Groups with
acting masters: namesrv.properties, broker-a-0 (the master), broker-a-1, broker-b-0 and so on.
"""

import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from epochmq.base.errors import ConfigError, PortInUse
from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.runtime.listen import describe_holder
from epochmq.runtime.rng import RealRng

# Port block ----------------------------------------------------------------------------------
# The ports of a local cluster: one block, moved as a whole when any of them is taken.


HOST = "127.0.0.1"
STEP = 10
TRIES = 100
CONTROLLERS = 3
"""The smallest number that keeps a majority when one fails."""
_CONTROLLER_STEP = 2
_REPLICA_STEP = 10
_ANYWHERE_FROM = 12_000
_ANYWHERE_COUNT = 8_000


@dataclass(frozen=True, slots=True)
class PortBlock:
    """The ports of a cluster, by default RocketMQ's; `broker`, `fast`, `ha` are the first
    broker's.
    """

    namesrv: int = 9876
    broker: int = 10911
    fast: int = 10909
    ha: int = 10912
    replicas: int = 1
    """The number of brokers in a group; more than one need controllers, or acting groups."""
    acting_groups: int = 0
    """The number of groups with acting masters and without controllers; 0 for one plain group."""

    @property
    def brokers(self) -> int:
        """The total number of brokers."""
        return self.replicas * max(1, self.acting_groups)

    @property
    def controllers(self) -> tuple[int, ...]:
        """The ports of the controllers; empty where no master is elected."""
        count = CONTROLLERS if self.replicas > 1 and not self.acting_groups else 0
        return tuple(self.namesrv + _CONTROLLER_STEP + number for number in range(count))

    @property
    def relay(self) -> int:
        """The port of the relay; 0 where no master is elected."""
        return self.controllers[-1] + 1 if self.controllers else 0

    def of_replica(self, number: int) -> "PortBlock":
        """Return a block whose `broker`, `fast` and `ha` are the ports of broker `number`."""
        by = number * _REPLICA_STEP
        return replace(self, broker=self.broker + by, fast=self.fast + by, ha=self.ha + by)

    def shifted(self, by: int) -> "PortBlock":
        """Return the block with all ports increased by `by`."""
        return replace(
            self,
            namesrv=self.namesrv + by,
            broker=self.broker + by,
            fast=self.fast + by,
            ha=self.ha + by,
        )

    def all(self) -> tuple[int, ...]:
        """Return every port on which a server will listen."""
        brokers = (self.of_replica(number) for number in range(self.brokers))
        ports = (port for each in brokers for port in (each.broker, each.fast, each.ha))
        relays = (self.relay,) if self.relay else ()
        return (self.namesrv, *self.controllers, *relays, *ports)


@dataclass(frozen=True, slots=True)
class PortChoice:
    """The block to use, and the owner of each port that was taken."""

    ports: PortBlock
    taken: tuple[str, ...] = ()


def choose(wanted: PortBlock) -> PortChoice:
    """Return `wanted`, or the nearest block above it whose ports are all free.

    Raises `PortInUse` when no block of a hundred is free.
    """
    taken: tuple[str, ...] = ()
    for step in range(TRIES):
        block = wanted.shifted(step * STEP)
        busy = [port for port in block.all() if not is_free(port)]
        if not busy:
            return PortChoice(block, taken)
        taken = taken or tuple(_holder(port) for port in busy)
    raise PortInUse(f"no free block of ports above {wanted.namesrv}: {'; '.join(taken)}")


def choose_anywhere(replicas: int = 1, acting_groups: int = 0) -> PortBlock:
    """Return a random free block, for a cluster that no user has to find.

    The ports are below those that the kernel gives to outgoing connections: one of these could be
    taken between this check and the server's start.
    """
    base = _ANYWHERE_FROM + RealRng().randrange(_ANYWHERE_COUNT)
    first = base + 2 + _CONTROLLER_STEP + CONTROLLERS  # after the relay
    return choose(PortBlock(base, first + 2, first, first + 3, replicas, acting_groups)).ports


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _holder(port: int) -> str:
    holder = describe_holder(port)
    return f"port {port} is taken{f' by {holder}' if holder else ''}"


# Config files --------------------------------------------------------------------------------


NAMESRV = "namesrv.properties"
BROKER = "broker.properties"
RELAY = "relay.properties"
DASHBOARD = "dashboard"
DASHBOARD_PORT = 8082
SUFFIX = ".properties"
KV_PATH = "kvConfigPath"
KV_FILE = "namesrv/kvConfig.json"
_LETTERS = "abcdefghi"

_NAMESRV_TEXT = """\
# The name server of this directory's cluster. Yours to edit: it is not written again,
# except for the ports when they are taken. All options: epochmq namesrv --help-options
listenPort={ports.namesrv}
bindAddress={host}
{acting}{kv_path}"""

_NAMESRV_ACTING = """
# A group without its master is shown with a slave in its place, which may be read (RIP-32).
supportActingMaster=true
notifyMinBrokerIdChanged=true
"""

_CONTROLLER_TEXT = """\
# A controller of this directory's cluster. Yours to edit: it is not written again,
# except for the ports when they are taken. All options: epochmq controller --help-options
controllerDLegerGroup=dev
controllerDLegerPeers={peers}
controllerDLegerSelfId=n{number}
{store_path}
# The group is founded once all controllers are up with empty directories; no effect later.
controllerBootstrap=true
"""

_RELAY_TEXT = """\
# The relay of this directory's cluster. Yours to edit: it is not written again,
# except for the ports when they are taken. All options: epochmq relay --help-options
relayGroups={relay_groups}
bindAddress={host}
namesrvAddr={host}:{ports.namesrv}
"""

_DASHBOARD_TEXT = """\
# The dashboard of this directory's cluster. Yours to edit: it is not written again,
# except for the ports when they are taken. All options: epochmq dashboard --help-options
listenPort={port}
bindAddress={host}
namesrvAddr={host}:{namesrv}
{data_dir}"""

_BROKER_TEXT = """\
# A broker of this directory's cluster. Yours to edit: it is not written again,
# except for the ports when they are taken. All options: epochmq broker --help-options
brokerClusterName=DefaultCluster
brokerName={name}
{group}
# Where it listens, and the name server it tells.
bindAddress={host}
listenPort={ports.broker}
fastListenPort={ports.fast}
haListenPort={ports.ha}
namesrvAddr={host}:{ports.namesrv}

# Where data is kept; remove the directory to start with no data. Files smaller than in production.
{store_path}\
mappedFileSizeCommitLog=67108864

# ASYNC_FLUSH survives a killed process, SYNC_FLUSH a loss of power too.
flushDiskType=ASYNC_FLUSH

# SQL92 subscriptions (epochmq consume --sql); off in production unless asked for.
enablePropertyFilter=true

# A send to an unknown topic creates it with this many queues at most.
autoCreateTopicEnable=true
defaultTopicQueueNums=8
"""

_ALONE = "brokerId=0\n"
_IN_CONTROLLER_MODE = """
# The controllers say who is master; brokerId and brokerRole have no say.
enableControllerMode=true
controllerAddr={controllers}

# Clients are told this address as the master's: that of the relay, which leads to the master.
groupAddress={host}:{relay}

# A message counts as sent once every replica that is in sync has it, and two at least have.
allAckInSyncStateSet=true
minInSyncReplicas={minimum}
"""

_IN_ACTING_GROUP = """brokerId={number}
brokerRole={role}

# The slave becomes acting master when the master is gone (RIP-32): clients read from it, and it
# forwards to another group's master what it has to write. RocketMQ's defaults leave all this off.
enableSlaveActingMaster=true
slaveReadEnable=true
enableRemoteEscape=true
compatibleWithOldNameSrv=false
brokerNotActiveTimeoutMillis=5000

# A send waits for the slave while there is one. With totalReplicas=1 a master that returns would
# take back consumer offsets only, and late.
totalReplicas={replicas}
inSyncReplicas={replicas}
minInSyncReplicas=1
enableAutoInSyncReplicas=true

# true gives a queue to one ordered consumer only, and with two replicas to none while one is down.
lockInStrictMode=false
"""


def write_missing(directory: Path, ports: PortBlock) -> None:
    """Write the files that do not exist."""
    kv_path = format_properties([(KV_PATH, str(directory / KV_FILE))])
    acting = _NAMESRV_ACTING if ports.acting_groups else ""
    texts = {NAMESRV: _NAMESRV_TEXT.format(ports=ports, host=HOST, kv_path=kv_path, acting=acting)}
    for number in range(len(ports.controllers)):
        name = f"controller-{number}"
        texts[name + SUFFIX] = _CONTROLLER_TEXT.format(
            peers=_peers(ports),
            number=number,
            store_path=format_properties([("controllerStorePath", str(directory / name))]),
        )
    if ports.relay:
        texts[RELAY] = _RELAY_TEXT.format(ports=ports, host=HOST, relay_groups=_relay_groups(ports))
    for number, name in enumerate(_broker_names(ports)):
        store = directory / name.replace("broker", "store", 1)
        texts[name + SUFFIX] = _broker_text(ports, number, store)
    for file, text in texts.items():
        path = directory / file
        if not path.exists():
            path.write_text(text)


def write_dashboard(directory: Path) -> None:
    """Write the file of the dashboard if there is none, with a free port.

    Raises `PortInUse` when no port near the usual one is free.
    """
    path = directory / f"{DASHBOARD}{SUFFIX}"
    if path.exists():
        return
    data_dir = format_properties([("dataDir", str(directory / DASHBOARD))])
    port, namesrv = free_port(DASHBOARD_PORT), read_ports(directory).namesrv
    path.write_text(
        _DASHBOARD_TEXT.format(port=port, host=HOST, namesrv=namesrv, data_dir=data_dir)
    )


def move_dashboard(directory: Path) -> None:
    """Let a dashboard that does not run use a free port, and the name server of its cluster."""
    path = directory / f"{DASHBOARD}{SUFFIX}"
    port = free_port(_Numbers(path).get("listenPort", DASHBOARD_PORT))
    namesrv = f"{HOST}:{read_ports(directory).namesrv}"
    _replace(path, {"listenPort": str(port), "namesrvAddr": namesrv})


def free_port(wanted: int) -> int:
    """Return `wanted`, or the first port above it that is free.

    Raises `PortInUse` when a hundred ports are taken.
    """
    for port in range(wanted, min(wanted + TRIES, 1 << 16)):
        if is_free(port):
            return port
    raise PortInUse(f"no free port above {wanted}: {_holder(wanted)}")


def _broker_names(ports: PortBlock) -> list[str]:
    """Return the names of the brokers' files, in the order of their ports."""
    if ports.acting_groups:
        groups = _LETTERS[: ports.acting_groups]
        return [f"broker-{group}-{number}" for group in groups for number in range(ports.replicas)]
    if ports.replicas == 1:
        return ["broker"]
    return [f"broker-{number}" for number in range(ports.replicas)]


def _broker_text(ports: PortBlock, number: int, store: Path) -> str:
    return _BROKER_TEXT.format(
        name=f"broker-{_LETTERS[number // ports.replicas]}",
        ports=ports.of_replica(number),
        host=HOST,
        group=_group_text(ports, number % ports.replicas),
        store_path=format_properties([("storePathRootDir", str(store))]),
    )


def _group_text(ports: PortBlock, number: int) -> str:
    if ports.acting_groups:
        role = "SLAVE" if number else "SYNC_MASTER"
        return _IN_ACTING_GROUP.format(number=number, role=role, replicas=ports.replicas)
    if ports.replicas == 1:
        return _ALONE
    return _IN_CONTROLLER_MODE.format(
        controllers=_controllers(ports), minimum=2, host=HOST, relay=ports.relay
    )


def _relay_groups(ports: PortBlock) -> str:
    return f"broker-{_LETTERS[0]}:{ports.relay}"


def _controllers(ports: PortBlock) -> str:
    return ";".join(f"{HOST}:{port}" for port in ports.controllers)


def _peers(ports: PortBlock) -> str:
    return ";".join(f"n{n}-{HOST}:{port}" for n, port in enumerate(ports.controllers))


def names(directory: Path) -> tuple[str, ...]:
    """Return the servers that have a file in `directory`, in the order of their start."""
    found = {path.name.removesuffix(SUFFIX) for path in directory.glob(f"*{SUFFIX}")}
    kinds = ("namesrv", "controller", "relay", "broker", DASHBOARD)
    order = [name for kind in kinds for name in sorted(found) if kind_of(name) == kind]
    return tuple(order)


def kind_of(name: str) -> str:
    """Return the command that runs a server, such as `broker` for `broker-1`."""
    return name.partition("-")[0]


def address_of(directory: Path, name: str) -> str:
    """Return the address of the server `name` from its file."""
    values = _Numbers(directory / f"{name}{SUFFIX}")
    if kind_of(name) == "controller":
        return values.own_peer()
    if kind_of(name) == "relay":
        return f"{HOST}:{values.last_port('relayGroups')}"
    if name == DASHBOARD:
        return f"{HOST}:{values.get('listenPort', DASHBOARD_PORT)}"
    usual = PortBlock()
    return f"{HOST}:{values.get('listenPort', getattr(usual, kind_of(name)))}"


def read_ports(directory: Path) -> PortBlock:
    """Return the ports in the files; RocketMQ's default where a file has none.

    Raises `ConfigError` for a port that is not a number.
    """
    usual = PortBlock()
    brokers = [name for name in names(directory) if kind_of(name) == "broker"]
    first = f"{min(brokers)}{SUFFIX}" if brokers else BROKER
    groups = {name.rpartition("-")[0] for name in brokers if name.count("-") == 2}
    namesrv = _Numbers(directory / NAMESRV)
    broker = _Numbers(directory / first)
    main = broker.get("listenPort", usual.broker)
    return PortBlock(
        namesrv.get("listenPort", usual.namesrv),
        main,
        broker.get("fastListenPort", main - 2),
        broker.get("haListenPort", main + 1),
        max(1, len(brokers) // max(1, len(groups))),
        len(groups),
    )


def move_ports(directory: Path, ports: PortBlock) -> None:
    """Change the ports in the files; all other lines stay as they are."""
    _replace(directory / NAMESRV, {"listenPort": str(ports.namesrv)})
    for number in range(len(ports.controllers)):
        path = directory / f"controller-{number}{SUFFIX}"
        _replace(path, {"controllerDLegerPeers": _peers(ports)})
    if ports.relay:
        relay = {"relayGroups": _relay_groups(ports), "namesrvAddr": f"{HOST}:{ports.namesrv}"}
        _replace(directory / RELAY, relay)
    for number, name in enumerate(_broker_names(ports)):
        own = ports.of_replica(number)
        values = {
            "listenPort": str(own.broker),
            "fastListenPort": str(own.fast),
            "haListenPort": str(own.ha),
            "namesrvAddr": f"{HOST}:{ports.namesrv}",
        }
        if ports.controllers:
            values["controllerAddr"] = _controllers(ports)
            values["groupAddress"] = f"{HOST}:{ports.relay}"
        _replace(directory / f"{name}{SUFFIX}", values)


def follow_move(directory: Path) -> str | None:
    """Update the files after the cluster's directory was moved or copied.

    Returns the old directory, or None if it was not moved. Raises `ConfigError`, without a change,
    when data of the cluster was left in the old directory.
    """
    old = _written_for(directory)
    if old is None or old == str(directory):
        return None
    changes: list[tuple[Path, str, str]] = []
    problems = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        for key, value in parse_properties(path.read_text()).items():
            if not value.startswith(old + "/"):
                continue
            moved = str(directory) + value.removeprefix(old)
            if Path(value).exists() and not Path(moved).exists():
                problems.append(
                    f"{path}: {key} is {value}, and {moved} is not there: move the data, or write"
                    " where it is"
                )
            changes.append((path, key, moved))
    if problems:
        raise ConfigError(problems)
    for path, key, moved in changes:
        _replace(path, {key: format_properties([("x", moved)]).removeprefix("x=").rstrip("\n")})
    return old


def _written_for(directory: Path) -> str | None:
    """Return the directory in the name server's file; None when the user has set another path."""
    path = directory / NAMESRV
    found = parse_properties(path.read_text()).get(KV_PATH, "") if path.exists() else ""
    return found.removesuffix(f"/{KV_FILE}") if found.endswith(f"/{KV_FILE}") else None


class _Numbers:
    """The numbers in one properties file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values = parse_properties(path.read_text()) if path.exists() else {}

    def get(self, key: str, default: int) -> int:
        text = self._values.get(key, "").strip()
        if not text or text == "0":
            return default
        if not text.isdigit():
            raise ConfigError([f"{self._path}: option '{key}' must be a whole number, not {text}"])
        return int(text)

    def last_port(self, key: str) -> str:
        """Return the port of the last group in a list of NAME:PORT."""
        return self._values.get(key, "").rpartition(":")[2].rstrip("; ")

    def own_peer(self) -> str:
        """Return the controller's own address in its list of peers; empty when it is not in it."""
        own = self._values.get("controllerDLegerSelfId", "")
        for peer in self._values.get("controllerDLegerPeers", "").split(";"):
            node, _, address = peer.strip().partition("-")
            if node == own:
                return address
        return ""


def _replace(path: Path, values: dict[str, str]) -> None:
    text = path.read_text()
    for key, value in values.items():
        line = f"{key}={value}"
        text, count = re.subn(rf"(?m)^[ \t]*{key}[ \t]*[=:].*$", lambda _: line, text)  # noqa: B023
        if not count:
            text += line + "\n"
    path.write_text(text)
