"""Simulated ordered consumers that lock, renew and unlock queues, and commit offsets.

A consumer believes that it holds a queue for the longest time that any client may: an answer within
a second gives 60 s from the answer on its own clock (ADR 0052). Work that it has begun is committed
when it is done, whether or not the lock is still held, as stock clients do; so does one that was
paused.
"""

from typing import TYPE_CHECKING

from epochmq.broker.consume.queue_locks import LIFE_MS
from epochmq.model.topic import MessageQueue, TopicRouteData
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.group_bodies import LockBatchRequest, LockBatchResponse
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.namesrv_headers import GetRouteHeader
from sim.controller.member import GROUP
from sim.kernel.host import Host
from sim.kernel.rpc import Rpc, Session
from sim.kernel.world import MS, SECOND
from sim.locks.lock_brokers import TOPIC, queue_of

if TYPE_CHECKING:
    from sim.locks.locks_world import LocksHistory

ANSWER_MS = 1_000
RENEW_MS = 20_000
ROUTE_MS = 10_000
CONSUMERS = "G"


class LockClient:
    """One consumer process; after a restart it is another client."""

    def __init__(self, history: "LocksHistory", host: Host) -> None:
        self.history = history
        self.host = host
        self.world = host.world
        self.rpc = Rpc(history.net, host)
        self.name = f"{host.name}#{host.starts}"
        self.chance = self.world.streams[f"client:{host.name}"]
        self.master = ""
        self.route_at = host.now
        self.next_at = host.now
        self.until: dict[MessageQueue, int] = {}
        """By queue: until when it believes to hold the lock, on its own clock."""
        self.renew_at: dict[MessageQueue, int] = {}
        self.asked = 0
        self.given_back: dict[MessageQueue, int] = {}
        """By queue: answers to requests up to this number are ignored."""

    def state_line(self) -> str:
        held = {queue.queue_id: until - self.host.now for queue, until in self.until.items()}
        return f"{self.name} of {self.master or 'nobody'} holds {held}"

    def request(self, command: Command, session: Session) -> None:
        """Do nothing: clients get no requests."""

    def session_closed(self, session: Session) -> None: ...

    # Time ---------------------------------------------------------------------------------------

    def wake(self, now: int) -> int:
        if now >= self.route_at:
            self.route_at = now + ROUTE_MS
            self._ask_route()
        if now >= self.next_at:
            self.next_at = now + 200 + self.chance.randrange(self.history.pace_ms)
            self._step(now)
        return self.next_deadline()

    def next_deadline(self) -> int:
        return min(self.route_at, self.next_at)

    def holds(self, queue: MessageQueue, now: int) -> bool:
        return self.until.get(queue, now) > now

    def _step(self, now: int) -> None:
        """Renew the locks that are due, else do a random step."""
        due = [queue for queue, at in self.renew_at.items() if now >= at]
        if due:
            for queue in due:
                self.renew_at[queue] = now + RENEW_MS
            self._lock(due, self.master)
            return
        queues = [queue_of(number) for number in range(self.history.queues)]
        queue = self.chance.choice(queues)
        what = self.chance.randrange(100)
        if self.holds(queue, now):
            if what < self.history.unlock_percent:
                self._unlock(queue)
            elif what < 60:
                self._work(queue)
            return
        some = [q for q in queues if q == queue or self.chance.randrange(2)]
        anybody = self.chance.choice(self.history.broker_names)
        self._lock(some, anybody if what < 20 else self.master)

    # Requests -----------------------------------------------------------------------------------

    def _ask_route(self) -> None:
        def answered(answer: Command) -> None:
            if answer.code == 0:
                route = decode_body(TopicRouteData, answer.body)
                address = route.broker_datas[0].broker_addrs.get(0)
                self.master = "" if address is None else self.history.host_at(address)

        name = self.chance.choice(self.history.server_names)
        header = GetRouteHeader(TOPIC, acceptStandardJsonOnly=True)
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        self.rpc.call(name, command, 3 * SECOND, answered, lambda _lost: None)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return encode_body(LockBatchRequest(CONSUMERS, self.name, queues))

    def _lock(self, queues: list[MessageQueue], broker: str) -> None:
        if not broker:
            return
        self.asked += 1
        number, asked_at = self.asked, self.host.now

        def answered(answer: Command) -> None:
            now = self.host.now
            if answer.code != 0:
                self.route_at = min(self.route_at, now + SECOND // MS)
            elif now - asked_at <= ANSWER_MS:
                held = decode_body(LockBatchResponse, answer.body).lock_ok_mq_set
                self._granted(held, queues, number, broker, now)

        def failed(_lost: bool) -> None:
            self.route_at = min(self.route_at, self.host.now + SECOND // MS)

        command = request(RequestCode.LOCK_BATCH_MQ, None, self._body(queues))
        self.rpc.call(broker, command, ANSWER_MS * MS, answered, failed)

    def _granted(
        self,
        held: list[MessageQueue],
        asked: list[MessageQueue],
        number: int,
        broker: str,
        now: int,
    ) -> None:
        """Record the granted locks; after a failed renewal the earlier lock stays valid."""
        for queue in asked:
            if queue in held and number > self.given_back.get(queue, 0):
                self.until[queue] = max(now + LIFE_MS, self.until.get(queue, 0))
                self.renew_at[queue] = now + RENEW_MS
                self.world.mark("covered.locked")
                self.world.tell("lock_believed", self, queue, self.until[queue], broker)
            elif not self.holds(queue, now):
                self.renew_at.pop(queue, None)

    def _unlock(self, queue: MessageQueue) -> None:
        """Stop working on the queue, then send the unlock."""
        self.until.pop(queue, None)
        self.renew_at.pop(queue, None)
        self.given_back[queue] = self.asked
        self.world.mark("covered.unlocked")
        self.world.tell("lock_given_back", self, queue)
        if self.master:
            command = request(RequestCode.UNLOCK_BATCH_MQ, None, self._body([queue]))
            self.rpc.call(self.master, command, SECOND, lambda _answer: None, lambda _lost: None)

    def _work(self, queue: MessageQueue) -> None:
        """Process the available messages, and commit."""
        slow = self.chance.randrange(10) == 0
        after_ms = self.chance.randrange(100_000 if slow else 1_000)
        self.world.after(after_ms * MS, "done", lambda: self._commit(queue), self.host)

    def _commit(self, queue: MessageQueue) -> None:
        fields = {
            "consumerGroup": CONSUMERS,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "clientId": self.name,
            "brokerName": GROUP,
        }
        command = request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        if self.master:
            self.rpc.call(self.master, command, SECOND, lambda _answer: None, lambda _lost: None)
