"""A broker of the world `popping`: reports ordered POP batches and their watchers to checkers."""

from collections.abc import Sequence

from epochmq.broker.group.metadata_sync_service import TIMEOUT_MS
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command
from sim.kernel.host import Host
from sim.kernel.rpc import Session
from sim.kernel.world import MS
from sim.secondary.secondary_broker import SecondaryBroker
from sim.secondary.secondary_parts import WatchedSession

COUNTS = tuple[dict[int, int], int]
WATCH = RequestCode.GET_ALL_CONSUMER_ORDER_INFO


class PoppingBroker(SecondaryBroker):
    """Its replicas request its tables with the product's timeouts."""

    copy_timeout_us = TIMEOUT_MS * MS

    def furnish(self, host: Host) -> None:
        self.peers: dict[int, str] = {}
        """By session: the replica that requests the table of ordered batches."""
        super().furnish(host)
        orders = self.owned.pop.orders
        out = orders.out

        def watched(
            key: QueueKey,
            attempt_id: str | None,
            pop: tuple[int, int],
            offsets: Sequence[int],
            now: int,
        ) -> COUNTS | None:
            counts = out(key, attempt_id, pop, offsets, now)
            if counts is not None:
                self.world.tell("took_in_order", self, key, attempt_id, pop, offsets)
            return counts

        orders.out = watched  # type: ignore[method-assign]

    def _by_table(self, command: Command, session: WatchedSession) -> None:
        if command.code == WATCH:
            self.peers[session.id] = session.peer
        self.world.tell("asked_in_order", self, command)
        super()._by_table(command, session)

    def session_closed(self, session: Session) -> None:
        self.peers.pop(session.id, None)
        super().session_closed(session)

    def order_watchers(self) -> dict[int, tuple[str, int]]:
        """Return the replicas that must know of a batch before it is handed out, by session."""
        now, hosts = self.host.now, self.world.hosts
        return {
            session: (name, hosts[name].incarnation)
            for (session, code), until in self.owned.watchers._watching.items()
            if code == WATCH and until > now
            for name in [self.peers[session]]
        }
