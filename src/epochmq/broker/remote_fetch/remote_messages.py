"""Pulls messages of another group's queue from its master, or from who stands in for it."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from epochmq.base.errors import EpochError, NotReachable
from epochmq.base.ports import Clock
from epochmq.broker.pop.pop_records import CheckPoint
from epochmq.broker.pop.revive.revive_driver import Came
from epochmq.broker.remote_fetch.wanted_messages import WantedMessages
from epochmq.model.message import StoredMessage
from epochmq.model.record import decode_all
from epochmq.model.route import TopicRouteData
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.namesrv_headers import GetRouteHeader
from epochmq.wire.headers.pull_headers import SUBSCRIPTION, PullHeader, PullResponseHeader

TIMEOUT_MS = 5_000
KEEP_MS = 2_000
"""How long an address is believed."""
_PLACES_MAX = 1_000
_EMPTY = frozenset(
    {
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)

log = logging.getLogger(__name__)


class RemoteMessages:
    """`fetch` is what reviving calls; each call runs by itself."""

    def __init__(self, peers: Peers, addresses: Sequence[str], clock: Clock) -> None:
        self._peers = peers
        self._addresses = list(addresses)
        self._clock = clock
        self._places: dict[tuple[str, str], tuple[int, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def fetch(self, found: CheckPoint, offsets: Sequence[int], came: Came) -> None:
        """Read the messages of a check point; `came` is called once, later."""
        if self._closed:
            return
        task = asyncio.get_running_loop().create_task(self._fetch(found, offsets, came))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Nobody hears of what is under way."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._peers.close()

    async def _fetch(self, found: CheckPoint, offsets: Sequence[int], came: Came) -> None:
        messages: Mapping[int, StoredMessage | None] | None = None
        place = (found.topic, found.broker_name or "")
        try:
            messages = await self._read(found, offsets, await self._address(*place))
        except EpochError as error:
            self._places.pop(place, None)
            log.warning("messages of %s at %s cannot be read: %s", *place, error)
        finally:
            if not self._closed:
                came(messages)

    async def _address(self, topic: str, name: str) -> str:
        """Of the group's master as routes show it, else of the smallest id that lives."""
        now = self._clock.now_ms()
        known = self._places.get((topic, name))
        if known is not None and now < known[0]:
            return known[1]
        header = GetRouteHeader(topic=topic, acceptStandardJsonOnly=True)
        for address in self._addresses:
            try:
                command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
                answer = await self._peers.invoke(address, command, TIMEOUT_MS)
            except NotReachable:
                continue
            if answer.code != ResponseCode.SUCCESS:
                continue
            for group in decode_answer(TopicRouteData, answer.body).broker_datas:
                if group.broker_name == name and group.broker_addrs:
                    found = group.broker_addrs[min(group.broker_addrs)]
                    if len(self._places) >= _PLACES_MAX:
                        self._places.clear()
                    self._places[topic, name] = (now + KEEP_MS, found)
                    return found
        raise NotReachable(f"no name server knows a living broker of {name}")

    async def _read(
        self, found: CheckPoint, offsets: Sequence[int], address: str
    ) -> Mapping[int, StoredMessage | None]:
        wanted = WantedMessages(offsets)
        while (pull := wanted.next_pull()) is not None:
            header = PullHeader(
                consumerGroup=found.group,
                topic=found.topic,
                queueId=found.queue_id,
                queueOffset=pull[0],
                maxMsgNums=pull[1],
                sysFlag=SUBSCRIPTION,
                commitOffset=0,
                suspendTimeoutMillis=0,
                subVersion=0,
                subscription="*",
                expressionType="TAG",
            )
            command = request(RequestCode.PULL_MESSAGE, header)
            answer = await self._peers.invoke(address, command, TIMEOUT_MS)
            if answer.code == ResponseCode.SUCCESS:
                wanted.came(decode_all(bytes(answer.body)))
                continue
            if answer.code not in _EMPTY:
                raise NotReachable(f"{address} answers {answer.code}: {answer.remark}")
            said = decode_header(PullResponseHeader, answer.ext)
            if not wanted.none(answer.code, said.minOffset, said.maxOffset, said.nextBeginOffset):
                break
        return wanted.found
