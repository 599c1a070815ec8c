"""A broker killed, an offset set back: a client takes up to 40 s over it, so all do it at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from .clients import ALL, Client
from .contract import COUNT, expected_bodies
from .drivers.driver import Driver
from .peers import admin
from .peers.cache import UnavailableError
from .peers.cluster import Cluster

_EACH = pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
_WAIT_MAX_S = 100


class Member:
    """One client that consumes a topic of its own for as long as the module's tests run."""

    def __init__(self, client: Client, cluster: Cluster) -> None:
        self.client = client
        self.cluster = cluster
        self.topic = f"together_{client.name}"
        self.group = f"G_together_{client.name}"
        self.driver: Driver | None = None

    def start(self) -> None:
        """Send and receive some; the consumer stays."""
        self.driver = self.client.build()
        admin.create_topic(self.cluster.broker_addr, self.topic)
        admin.set_group(self.cluster.broker_addr, self.group)
        self.driver.run("send", self.cluster.namesrv_addr, self.topic, count=COUNT, prefix="a")
        self.driver.start(
            "push",
            self.cluster.namesrv_addr,
            self.topic,
            group=self.group,
            count=0,
            timeout_ms=600_000,
        )
        assert self.receive("a") == Counter(expected_bodies("a"))

    def receive(self, prefix: str) -> Counter[str]:
        """The next messages, until all with this prefix have come."""
        assert self.driver is not None
        seen: Counter[str] = Counter()
        while not set(expected_bodies(prefix)) <= set(seen):
            event = self.driver.wait_event(lambda event: event["event"] == "received", _WAIT_MAX_S)
            seen[event["body"]] += 1
        return seen


class Together:
    """The members, and what each made of the two events (in threads: they wait for minutes)."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.members = {client.name: Member(client, cluster) for client in ALL}
        self._pool = ThreadPoolExecutor(len(ALL))
        self._after_reset: dict[str, Future[Counter[str]]] = {}
        self._after_kill: dict[str, Future[Counter[str]]] = {}
        starting = {name: self._pool.submit(m.start) for name, m in self.members.items()}
        self.failures = {name: future.exception() for name, future in starting.items()}

    def living(self, ability: str = "") -> list[Member]:
        """The members that could be had, work so far and are able to."""
        return [
            member
            for name, member in self.members.items()
            if self.failures[name] is None and ability not in member.client.lacks
        ]

    def member(self, client: Client) -> Member:
        """The client's member; skips where it cannot be had, fails where it did not start."""
        failure = self.failures[client.name]
        if isinstance(failure, UnavailableError):
            pytest.skip(f"cannot be had: {failure}")
        if failure is not None:
            raise failure
        return self.members[client.name]

    def after_reset(self, client: Client) -> Counter[str]:
        """Set all groups back to the beginning, once; what this client received then."""
        if not self._after_reset:
            able = self.living("offset reset")
            for member in able:
                admin.reset_offset(self.cluster.broker_addr, member.topic, member.group, 0)
            for member in able:
                future = self._pool.submit(member.receive, "a")
                self._after_reset[member.client.name] = future
        return self._after_reset[client.name].result()

    def after_kill(self, client: Client) -> Counter[str]:
        """Kill the broker, start it again and send, once; what this client received then."""
        if not self._after_kill:
            # Two threads that wait for events of one member would take them from each other.
            wait(self._after_reset.values())
            self.cluster.kill9_broker()
            self.cluster.start_broker()
            for member in self.living():
                for i in range(COUNT):
                    body = f"after-{i}".encode()
                    admin.send(self.cluster.broker_addr, member.topic, body, queue=i % 4)
                future = self._pool.submit(member.receive, "after")
                self._after_kill[member.client.name] = future
        return self._after_kill[client.name].result()

    def close(self) -> None:
        """End all drivers; threads that still wait for them end with them."""
        for member in self.members.values():
            if member.driver is not None:
                member.driver.close()
        self._pool.shutdown()


@pytest.fixture(scope="module")
def together(cluster: Cluster) -> Iterator[Together]:
    running = Together(cluster)
    try:
        yield running
    finally:
        running.close()


@_EACH
def test_offset_reset(together: Together, client: Client) -> None:
    """An operator sets a living group back; its members begin again without a restart."""
    together.member(client)
    if "offset reset" in client.lacks:
        pytest.skip(f"the client offers no offset reset: {client.lacks['offset reset']}")
    assert together.after_reset(client) == Counter(expected_bodies("a"))


@_EACH
def test_broker_restart_in_the_middle(together: Together, client: Client) -> None:
    """The broker is killed and comes back; a running consumer finds the way by itself."""
    together.member(client)
    seen = set(together.after_kill(client))
    again = seen - set(expected_bodies("after"))  # what was not yet committed may come twice
    assert again <= set(expected_bodies("a"))
