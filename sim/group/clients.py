"""Simulated producers and readers of a group, which find the master by trying brokers."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from sim.group.brokers import EMPTY, REFUSED
from sim.kernel.host import Host
from sim.kernel.oracle import Delivery
from sim.kernel.rpc import Rpc, Session
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS, number_of, offset_of, queue_offset_of, records
from sim.kernel.world import MS

if TYPE_CHECKING:
    from sim.group.group_world import GroupHistory


class Client:
    """One client machine, which sends and reads."""

    def __init__(self, history: "GroupHistory", host: Host) -> None:
        self.history = history
        self.host = host
        self.world = host.world
        self.rpc = Rpc(history.cluster.net, host)
        self.chance = self.world.streams[f"client:{host.name}"]
        self.target = 0
        self.cursors = {(t, q): 0 for t in TOPICS for q in range(QUEUES)}
        self.reading = False

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        return f"client of {self.history.cluster.broker_names[self.target]}"

    def request(self, command: Command, session: Session) -> None:
        """Do nothing: clients get no requests."""

    def session_closed(self, session: Session) -> None: ...

    # Sending ------------------------------------------------------------------------------------

    def send(self, done: Callable[[bool], None] = lambda _ok: None) -> None:
        """Send the next message to the broker that it believes to be the master."""
        history, chance, oracle = self.history, self.chance, self.history.oracle
        number = len(oracle.sends)
        topic, queue = TOPICS[chance.randrange(len(TOPICS))], chance.randrange(QUEUES)
        body = b"%d:" % number + chance.randbytes(chance.choice(history.sizes))
        oracle.call(number, self.host.name, (topic, queue), self.world.time_us)
        fields = {"number": str(number), "topic": topic, "queue": str(queue), **self.wishes()}
        command = request(RequestCode.SEND_MESSAGE, fields, body)
        target, name = self.target, history.cluster.broker_names[self.target]

        def answered(answer: Command) -> None:
            if answer.code == 0:
                self.acked(number, answer.ext or {}, name)
            elif answer.code == REFUSED:
                oracle.fail(number, self.world.time_us)
            if answer.code != 0:
                self.turn_from(target)
            done(answer.code == 0)

        def failed(_lost: bool) -> None:
            self.turn_from(target)
            done(False)

        self.rpc.call(name, command, history.send_timeout_us, answered, failed)

    def wishes(self) -> dict[str, str]:
        """Fields that make the next message a special one."""
        return {}

    def acked(self, number: int, ext: dict[str, str], name: str) -> None:
        """It was acknowledged by the broker `name`."""
        place = int(ext["queueOffset"]), int(ext["offset"])
        epoch = int(ext["epoch"])
        self.history.oracle.ok(number, place, epoch, name, self.world.time_us)

    def turn_from(self, target: int) -> None:
        """Try another broker next time."""
        if self.target == target:
            self.target = self.chance.randrange(len(self.history.cluster.broker_names))

    # Reading ------------------------------------------------------------------------------------

    def read(self) -> None:
        """Go on reading a drawn queue at a drawn broker: masters and slaves show the same."""
        if self.reading:
            return
        chance, cluster = self.chance, self.history.cluster
        queue = (TOPICS[chance.randrange(len(TOPICS))], chance.randrange(QUEUES))
        name = cluster.broker_names[chance.randrange(len(cluster.broker_names))]
        at = self.cursors[queue]
        fields = {"topic": queue[0], "queue": str(queue[1]), "at": str(at)}
        command = request(RequestCode.PULL_MESSAGE, fields)
        self.reading = True

        def answered(answer: Command) -> None:
            self.reading = False
            if answer.code != EMPTY:
                self.cursors[queue] = self.take(queue, at, bytes(answer.body), name)

        def failed(_lost: bool) -> None:
            self.reading = False

        self.rpc.call(name, command, 200 * MS, answered, failed)

    def take(self, queue: tuple[str, int], at: int, body: bytes, broker: str) -> int:
        """Note what was delivered; the next offset (INV-24: no gap, in order)."""
        for record in records([memoryview(body)]):
            if queue_offset_of(record) != at:
                text = f"{queue}: {queue_offset_of(record)} where {at} is next"
                raise Violation("INV-24", text, (broker,), (at,))
            self.history.oracle.delivered(
                Delivery(
                    number_of(record),
                    self.host.name,
                    queue,
                    at,
                    self.world.time_us,
                    broker,
                    offset_of(record),
                )
            )
            at += 1
        return at
