"""Simulated clients of groups with acting masters: they know name servers only, and use routes.

A producer sends to writable masters. A consumer pulls its queues of every group from the master in
the route, commits, and sometimes restarts from the committed offsets.
"""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from epochmq.base.errors import EpochError
from epochmq.model.record import decode_all
from epochmq.model.topic import PERM_WRITE, TopicRouteData
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import Header, decode_header
from epochmq.wire.headers.namesrv_headers import GetRouteHeader
from epochmq.wire.headers.offset_headers import (
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from epochmq.wire.headers.pull_headers import SUBSCRIPTION, PullHeader, PullResponseHeader
from epochmq.wire.headers.send_headers import SendHeaderV2, SendResponseHeader
from sim.acting.acting_book import Sent
from sim.kernel.host import Host
from sim.kernel.runtime_patches import Served
from sim.kernel.workload import QUEUES, TOPICS

if TYPE_CHECKING:
    from sim.acting.acting_world import ActingHistory

CONSUMERS = "CG"
PRODUCERS = "PG"
CALL_MS = 500
ROUTE_MS = 300
"""How long (ms) a client uses a route."""


class Queue(NamedTuple):
    """A queue of one group."""

    group: str
    topic: str
    queue_id: int


class ActingClient(Served):
    """One client process: a producer, and a consumer of its share of the queues."""

    def __init__(self, history: "ActingHistory", host: Host, share: tuple[int, int]) -> None:
        self.history = history
        self.host = host
        self.world = host.world
        self.chance = self.world.streams[f"client:{host.name}"]
        self.share = share
        self.cursors: dict[Queue, int] = {}
        self._routes: dict[str, tuple[int, TopicRouteData]] = {}
        self.peers = Peers(connect_timeout_ms=CALL_MS)
        super().__init__(history.new_loop(host))

    async def main(self) -> None:
        self.loop.begin(self._produce())
        self.loop.begin(self._consume())

    async def _tell(self, address: str, command: Command) -> Command | None:
        """The answer; None when there is none in time."""
        try:
            return await self.peers.invoke(address, command, CALL_MS)
        except EpochError:
            return None

    async def _ask(
        self, address: str, code: RequestCode, header: Header, body: bytes = b""
    ) -> Command | None:
        return await self._tell(address, request(code, header, body))

    async def route(self, topic: str) -> TopicRouteData:
        """As a name server shows it, not older than `ROUTE_MS`; the last one while none answers."""
        known = self._routes.get(topic)
        if known is not None and self.host.now - known[0] < ROUTE_MS:
            return known[1]
        header = GetRouteHeader(topic=topic, acceptStandardJsonOnly=True)
        address = self.chance.choice(self.history.names_addresses)
        answer = await self._ask(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            found = decode_body(TopicRouteData, answer.body)
            self._routes[topic] = (self.host.now, found)
            return found
        return known[1] if known is not None else TopicRouteData()

    # Sending ------------------------------------------------------------------------------------

    async def _produce(self) -> None:
        while self.history.busy():
            await asyncio.sleep(self.chance.expovariate(1000 / self.history.pace_ms))
            await self._send()

    async def _send(self) -> None:
        topic = self.chance.choice(TOPICS)
        route = await self.route(topic)
        able = {
            data.broker_name: data.write_queue_nums
            for data in route.queue_datas
            if data.perm & PERM_WRITE
        }
        masters = {
            data.broker_name: data.broker_addrs[0]
            for data in route.broker_datas
            if data.broker_name in able and 0 in data.broker_addrs
        }
        if not masters:
            return
        name = self.chance.choice(sorted(masters))
        queue = Queue(name, topic, self.chance.randrange(able[name]))
        book = self.history.book
        sent = book.call(self.chance.choice(self.history.mix), queue)
        self.called(sent)
        properties = {"UNIQ_KEY": f"k{sent.number}", **self.wishes(sent.kind)}
        body = b"%d:" % sent.number + self.chance.randbytes(self.chance.choice((10, 10, 200)))
        header = SendHeaderV2(
            PRODUCERS,
            topic,
            "TBW102",
            QUEUES,
            queue.queue_id,
            self.flags(sent.kind),
            self.host.wall,
            0,
            properties="".join(f"{key}\x01{value}\x02" for key, value in properties.items()),
        )
        answer = await self._ask(masters[name], RequestCode.SEND_MESSAGE_V2, header, body)
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            said = decode_header(SendResponseHeader, answer.ext)
            sent.acked = True
            sent.queue_offset = said.queueOffset
            self.world.mark(f"covered.sent.{sent.kind}")
            self.acked(sent, said, masters[name])

    def flags(self, kind: str) -> int:
        """The `sysFlag` of such a message."""
        return 0

    def called(self, sent: Sent) -> None:
        """It goes out now."""

    def acked(self, sent: Sent, said: SendResponseHeader, address: str) -> None:
        """It is stored."""

    def wishes(self, kind: str) -> dict[str, str]:
        if kind == "level":
            return {"DELAY": str(1 + self.chance.randrange(2))}
        if kind == "timer":
            return {"TIMER_DELIVER_MS": str(self.host.wall + self.chance.randrange(200, 3000))}
        return {}

    # Consuming ----------------------------------------------------------------------------------

    def _queues(self) -> list[Queue]:
        """This client's share."""
        every = [
            Queue(group, topic, number)
            for group in self.history.groups
            for topic in TOPICS
            for number in range(QUEUES)
        ]
        mine, of = self.share
        return every[mine::of]

    async def _consume(self) -> None:
        while self.history.consuming():
            for queue in self._queues():
                await self._look(queue)
            await asyncio.sleep(3 * self.history.pace_ms / 1000)

    async def _look(self, queue: Queue) -> None:
        route = await self.route(queue.topic)
        shown = [data for data in route.broker_datas if data.broker_name == queue.group]
        if not shown or 0 not in shown[0].broker_addrs:
            return
        address = shown[0].broker_addrs[0]
        if queue not in self.cursors or self.chance.randrange(20) == 0:
            asked = QueryConsumerOffsetHeader(CONSUMERS, queue.topic, queue.queue_id)
            answer = await self._ask(address, RequestCode.QUERY_CONSUMER_OFFSET, asked)
            if answer is None or answer.code not in (
                ResponseCode.SUCCESS,
                ResponseCode.QUERY_NOT_FOUND,
            ):
                return
            at = 0
            if answer.code == ResponseCode.SUCCESS:
                at = decode_header(OffsetResponseHeader, answer.ext).offset
            self.cursors[queue] = at
            self.tell("begins_again", queue, at, self.history.host_at(address))
        await self._pull(queue, address)

    async def _pull(self, queue: Queue, address: str) -> None:
        at = self.cursors[queue]
        header = PullHeader(
            consumerGroup=CONSUMERS,
            topic=queue.topic,
            queueId=queue.queue_id,
            queueOffset=at,
            maxMsgNums=self.chance.choice((1, 4, 16)),
            sysFlag=SUBSCRIPTION,
            commitOffset=0,
            suspendTimeoutMillis=0,
            subVersion=0,
            subscription="*",
            expressionType="TAG",
        )
        answer = await self._ask(address, RequestCode.PULL_MESSAGE, header)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return
        for message in decode_all(bytes(answer.body)):
            self.history.book.delivered(queue, message.queue_offset, bytes(message.body))
        at = decode_header(PullResponseHeader, answer.ext).nextBeginOffset
        self.cursors[queue] = at
        wanted = UpdateConsumerOffsetHeader(CONSUMERS, queue.topic, queue.queue_id, at)
        since_us = self.world.time_us
        said = await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, wanted)
        if said is not None and said.code == ResponseCode.SUCCESS:
            self.world.mark("covered.committed")
            self.tell("committed", queue, at, self.history.host_at(address), since_us)
