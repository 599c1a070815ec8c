"""The ports of a local cluster: one block, moved as a whole when any of them is taken."""

import socket
from dataclasses import dataclass, replace

from epochmq.base.errors import PortInUse
from epochmq.runtime.port_holder import describe_holder
from epochmq.runtime.rng import RealRng

HOST = "127.0.0.1"
STEP = 10
TRIES = 100
CONTROLLERS = 3
"""As many as it takes to lose one and still have a majority."""
_CONTROLLER_STEP = 2
_REPLICA_STEP = 10
_ANYWHERE_FROM = 12_000
_ANYWHERE_COUNT = 8_000


@dataclass(frozen=True, slots=True)
class PortBlock:
    """RocketMQ's usual ports by default; the first broker's, from which the others follow."""

    namesrv: int = 9876
    broker: int = 10911
    fast: int = 10909
    ha: int = 10912
    replicas: int = 1
    """Brokers of one group; more than one come with controllers, or in acting groups."""
    acting_groups: int = 0
    """Groups whose slaves stand in for their masters, without controllers; 0 is the one group."""

    @property
    def brokers(self) -> int:
        """How many there are."""
        return self.replicas * max(1, self.acting_groups)

    @property
    def controllers(self) -> tuple[int, ...]:
        """Ports of the controllers, beside the name server's; none where nobody is elected."""
        count = CONTROLLERS if self.replicas > 1 and not self.acting_groups else 0
        return tuple(self.namesrv + _CONTROLLER_STEP + number for number in range(count))

    def of_replica(self, number: int) -> "PortBlock":
        """The block whose `broker`, `fast` and `ha` are those of the `number`-th broker."""
        by = number * _REPLICA_STEP
        return replace(self, broker=self.broker + by, fast=self.fast + by, ha=self.ha + by)

    def shifted(self, by: int) -> "PortBlock":
        """All ports moved by `by`."""
        return replace(
            self,
            namesrv=self.namesrv + by,
            broker=self.broker + by,
            fast=self.fast + by,
            ha=self.ha + by,
        )

    def all(self) -> tuple[int, ...]:
        """Every port that somebody will listen on."""
        brokers = (self.of_replica(number) for number in range(self.brokers))
        ports = (port for each in brokers for port in (each.broker, each.fast, each.ha))
        return (self.namesrv, *self.controllers, *ports)


@dataclass(frozen=True, slots=True)
class PortChoice:
    """The block to use, and for each port that was taken who holds it."""

    ports: PortBlock
    taken: tuple[str, ...] = ()


def choose(wanted: PortBlock) -> PortChoice:
    """`wanted`, or the nearest block above it that is free as a whole.

    Errors: `PortInUse` when a hundred blocks are not.
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
    """A free block by chance, for a cluster that nobody has to find.

    Below the ports that the kernel gives to outgoing connections: one of those would be taken at
    the moment between this look and the server's start.
    """
    base = _ANYWHERE_FROM + RealRng().randrange(_ANYWHERE_COUNT)
    first = base + 1 + _CONTROLLER_STEP + CONTROLLERS
    return choose(PortBlock(base, first + 2, first, first + 3, replicas, acting_groups)).ports


def is_free(port: int) -> bool:
    """Whether somebody could listen there now."""
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
