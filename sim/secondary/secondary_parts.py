"""Parts around a `BrokerContext` in the simulator: clocks, a table writer, and hooks for
checkers.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from epochmq.base.errors import EnvironmentFault
from epochmq.broker.internal_writes.internal_writer import Done, Origin, Route, WriteOutcome
from epochmq.broker.pop.broker_pop_state import PoppedCheckPoint, Stored
from epochmq.broker.pop.revive import OpenCheckPoint, Revive
from epochmq.broker.state.saved_files import SavedFile
from epochmq.store.draft import Draft
from epochmq.store.remake import Remade
from epochmq.wire.command import Command, Reply
from sim.kernel.host import Host
from sim.kernel.rpc import Session

if TYPE_CHECKING:
    from sim.secondary.secondary_broker import SecondaryBroker


class Saver:
    """Replaces `broker/state/table_writer.py`: one write after the other, with a disk's latency."""

    def __init__(self, host: Host, latency: Callable[[], int]) -> None:
        self._host = host
        self._latency = latency
        self._queue: deque[tuple[SavedFile, bytes, Callable[[], None] | None]] = deque()
        self._busy = False

    def save(self, table: SavedFile) -> None:
        write = self.snapshot(table)
        if write is not None:
            write()

    def snapshot(
        self, table: SavedFile, before: Callable[[], Callable[[], None]] | None = None
    ) -> Callable[[], None] | None:
        """Encode the table now; the returned function writes it later."""
        if not table.dirty:
            return None
        data = table.encode()
        table.dirty = False

        def write() -> None:
            self._queue.append((table, data, None if before is None else before()))
            self._pump()

        return write

    def _pump(self) -> None:
        if self._queue and not self._busy:
            self._busy = True
            self._host.world.after(self._latency(), "save", self._act, self._host)

    def _act(self) -> None:
        table, data, first = self._queue.popleft()
        self._busy = False
        try:
            if first is not None:
                first()
            self._host.disk.write_file(table.file, data, backup=True)
        except EnvironmentFault:
            table.dirty = True
        self._pump()


class Watched:
    """Wraps a route: reports messages and their outcome to checkers."""

    def __init__(self, broker: "SecondaryBroker", route: Route) -> None:
        self._broker = broker
        self.route = route

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        broker = self._broker
        if isinstance(drafts, Remade):
            drafts.drafts()  # they are told of later, too
        broker.world.tell("moves_on", broker, drafts, origin)
        tenure = broker.tenure

        def settled(outcomes: Sequence[WriteOutcome]) -> None:
            broker.world.tell("moved_on", broker, drafts, outcomes, origin, tenure)
            done(outcomes)

        self.route.put(drafts, origin, wall, settled)


class WatchedSession:
    """Wraps the session of one request: reports the answer to checkers."""

    def __init__(self, broker: "SecondaryBroker", session: Session) -> None:
        self._broker = broker
        self._session = session
        self.id = session.id
        self.peer = session.peer
        self.fast_port = False
        self.outbox_bytes = 0

    @property
    def closed(self) -> bool:
        return self._session.closed

    def answer(self, request: Command, reply: Reply) -> None:
        self._broker.world.tell("answers", self._broker, request, reply)
        self._session.answer(request, reply)


def watch_pops(broker: "SecondaryBroker") -> None:
    """Report new check points to checkers, and messages that are about to be handed out again."""
    pop = broker.owned.pop
    driver, keep = pop.driver, pop.keep
    deliver = driver._deliver

    def kept(taken: Sequence[PoppedCheckPoint], now: int, wall: int, done: Stored) -> None:
        for one in taken:
            broker.world.tell("keeps", broker, one.check_point)
        keep(taken, now, wall, done)

    def watched(core: Revive, entry: OpenCheckPoint, now: int, wall: int) -> None:
        offsets = [offset for _, offset in entry.open_messages()]
        broker.world.tell("revives", broker, entry, offsets)
        deliver(core, entry, now, wall)

    pop.keep = kept  # type: ignore[method-assign]
    driver._deliver = watched  # type: ignore[method-assign]
