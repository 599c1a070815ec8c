"""Route queries: asks the name servers for topic routes, for queue assignment to clients."""

import logging

from epochmq.base.errors import EpochError, NotReachable
from epochmq.base.ports import Clock
from epochmq.base.task_set import TaskSet
from epochmq.broker.consume.route_book import Queues, RouteBook, Waiter
from epochmq.model.topic import PERM_READ, MessageQueue, TopicRouteData
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.headers.namesrv_headers import GetRouteHeader

TIMEOUT_MS = 3_000

log = logging.getLogger(__name__)


class RouteWatch:
    """Runs the route queries of a `RouteBook`; request handlers call `find`."""

    def __init__(self, core: RouteBook, peers: Peers, addresses: list[str], clock: Clock) -> None:
        self.core = core
        self._peers = peers
        self._addresses = addresses
        self._clock = clock
        self._calls = TaskSet()

    def find(self, topic: str, waiter: Waiter) -> None:
        """Report the queues of `topic` to `waiter`, as `RouteBook.find`; query at once if due."""
        now = self._clock.now_ms()
        self.core.find(topic, now, waiter)
        self.tick(now)

    def tick(self, now: int) -> None:
        """Start the route queries that are due; each runs in its own task."""
        for topic in self.core.due(now):
            self._calls.spawn(self._ask(topic))

    def next_deadline(self) -> int | None:
        return self.core.next_deadline()

    async def close(self) -> None:
        """Stop all queries; requests that still wait are not answered."""
        await self._calls.close()
        await self._peers.close()

    async def _ask(self, topic: str) -> None:
        queues = None
        for address in self._addresses:
            try:
                queues = await self._ask_one(address, topic)
                break
            except NotReachable as error:
                log.info("route of %(topic)s: %(error)s", {"topic": topic, "error": error})
            except EpochError as error:
                log.warning(
                    "route of %(topic)s: %(address)s answered no route: %(error)s",
                    {"topic": topic, "address": address, "error": error},
                )
        now = self._clock.now_ms()
        if queues is None:
            self.core.failed(topic, now)
        else:
            self.core.came(topic, queues, now)

    async def _ask_one(self, address: str, topic: str) -> Queues | None:
        header = GetRouteHeader(topic, acceptStandardJsonOnly=True, ownAddresses=True)
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        answer = await self._peers.invoke(address, command, TIMEOUT_MS)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return ()
        if answer.code != ResponseCode.SUCCESS:
            return None
        return readable(topic, decode_answer(TopicRouteData, answer.body))


def readable(topic: str, route: TopicRouteData) -> Queues:
    """Return every readable queue of the route."""
    return tuple(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    )
