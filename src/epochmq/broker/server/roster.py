"""The list of a container's brokers: their states, and which broker may be added beside the others.

No I/O. A broker that failed stays listed with its reason and holds no resources: it may be added
again, and another broker may use its ports.
"""

from dataclasses import dataclass
from enum import Enum, auto

from epochmq.base.errors import Refused
from epochmq.broker.server.container_broker import InnerBrokerId
from epochmq.wire.codes import ResponseCode

INNER_BROKERS_MAX = 64


class InnerBrokerState(Enum):
    """The state of a broker between being added and being removed."""

    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    FAILED = auto()


@dataclass(slots=True)
class Inner:
    """One broker; `order` is its position by time of adding, from 1."""

    identity: InnerBrokerId
    path: str
    is_slave: bool
    ports: frozenset[int]
    folders: tuple[str, ...]
    order: int = 0
    state: InnerBrokerState = InnerBrokerState.STARTING
    problem: str = ""


class Roster:
    """The brokers by identity; `own_port` is the container's, which no broker may use."""

    def __init__(self, own_port: int) -> None:
        self._own_port = own_port
        self._inners: dict[InnerBrokerId, Inner] = {}
        self._added = 0

    def add(self, inner: Inner) -> None:
        """Add a broker in state STARTING; raises `Refused` when it cannot run beside the others."""
        present = self._inners.get(inner.identity)
        if present is not None and present.state is not InnerBrokerState.FAILED:
            doing = present.state.name.lower()
            raise _no(f"broker {inner.identity} is {doing} already, from {present.path}")
        others = [each for each in self._living() if each.identity != inner.identity]
        if len(others) >= INNER_BROKERS_MAX:
            raise _no(f"a container has at most {INNER_BROKERS_MAX} brokers")
        if self._own_port in inner.ports:
            raise _no(f"port {self._own_port} is the container's own")
        for other in others:
            _check_apart(inner, other)
        self._added += 1
        inner.order = self._added
        self._inners[inner.identity] = inner

    def _living(self) -> list[Inner]:
        return [each for each in self._inners.values() if each.state is not InnerBrokerState.FAILED]

    def started(self, identity: InnerBrokerId) -> None:
        self._inners[identity].state = InnerBrokerState.RUNNING

    def failed(self, identity: InnerBrokerId, problem: str) -> None:
        inner = self._inners[identity]
        inner.state, inner.problem = InnerBrokerState.FAILED, problem

    def remove(self, identity: InnerBrokerId) -> bool:
        """Set a broker to STOPPING; return False for a failed one, which is just removed.

        Raises `Refused`: 211 for a broker that does not exist, and for one that is starting or
        stopping.
        """
        inner = self._inners.get(identity)
        if inner is None:
            raise Refused(ResponseCode.BROKER_NOT_EXIST, f"broker {identity} not exist")
        if inner.state is InnerBrokerState.FAILED:
            del self._inners[identity]
            return False
        if inner.state is not InnerBrokerState.RUNNING:
            raise _no(f"broker {identity} is {inner.state.name.lower()}; try again")
        inner.state = InnerBrokerState.STOPPING
        return True

    def gone(self, identity: InnerBrokerId) -> None:
        del self._inners[identity]

    def running(self) -> list[Inner]:
        """Return the running brokers in the order in which they were added."""
        return [each for each in self._in_order() if each.state is InnerBrokerState.RUNNING]

    def stop_order(self) -> list[InnerBrokerId]:
        """Return the order to stop in: slaves before the masters that they copy and write to, and
        the last added first."""
        last_first = reversed(self.running())
        return [each.identity for each in sorted(last_first, key=lambda each: not each.is_slave)]

    def _in_order(self) -> list[Inner]:
        return sorted(self._inners.values(), key=lambda each: each.order)

    def statistics(self) -> dict[str, str]:
        """Return the state of each broker, with the reason of those that failed."""
        return {
            str(each.identity): " ".join(f"{each.state.name.lower()} {each.problem}".split())
            for each in self._in_order()
        }


def _check_apart(new: Inner, other: Inner) -> None:
    """Raise `Refused` when the two would listen on one port or write into one directory."""
    for port in sorted(new.ports & other.ports):
        raise _no(f"port {port} is that of broker {other.identity} in this container")
    for mine in new.folders:
        for theirs in other.folders:
            if _overlap(mine, theirs):
                raise _no(
                    f"the store directory {mine} of broker {new.identity} and {theirs} of broker"
                    f" {other.identity} overlap; each broker needs its own storePathRootDir"
                )


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _no(remark: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, remark)
