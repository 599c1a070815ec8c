"""Reads messages for POP revive from another broker group, by pull requests (RIP-32)."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from epochmq.base.errors import EpochError, NotReachable
from epochmq.base.ports import Clock
from epochmq.base.task_set import TaskSet
from epochmq.broker.pop.pop_records import CheckPoint
from epochmq.broker.pop.revive_driver import Came
from epochmq.model.message import StoredMessage
from epochmq.model.topic import TopicRouteData
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.namesrv_headers import GetRouteHeader
from epochmq.wire.headers.pull_headers import SUBSCRIPTION, PullHeader, PullResponseHeader
from epochmq.wire.pulled_messages import decode_messages

# Wanted messages -----------------------------------------------------------------------------
# Decides which pulls are needed for the messages of one check point, and what the answers mean.
#
# An acting master of another group handed over the check point (RIP-32); only that group has the
# messages. Each pull starts at the first missing message. A record in an answer is identified by
# its own queue offset (rocketmq#7724).


PULLS_MAX = 40
COUNT_MAX = 32


class WantedMessages:
    """The unacknowledged messages of one check point: which are found, gone or still missing."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self._left = sorted(set(offsets))
        self._pulls = 0
        self.found: dict[int, StoredMessage | None] = {}
        """Messages by queue offset; None for a message that is gone."""

    def next_pull(self) -> tuple[int, int] | None:
        """Return (queue offset, maximum count) of the next pull.

        None if nothing is missing, or after `PULLS_MAX` pulls.
        """
        if not self._left or self._pulls >= PULLS_MAX:
            return None
        self._pulls += 1
        first = self._left[0]
        return first, min(COUNT_MAX, self._left[-1] - first + 1)

    def came(self, messages: Sequence[StoredMessage]) -> None:
        """Take the messages of a successful answer; missing offsets before the last are gone."""
        last = max((message.queue_offset for message in messages), default=-1)
        by_offset = {message.queue_offset: message for message in messages}
        for at in [at for at in self._left if at <= last]:
            self._left.remove(at)
            self.found[at] = by_offset.get(at)

    def none(self, code: int, low: int, high: int, after: int) -> bool:
        """Take an answer without messages; return whether to pull again.

        The queue holds offsets `low` to `high`; `after` is the next offset that the answer
        suggests. Messages below `low`, or in a hole before `after`, are gone. Any other answer says
        nothing: the replica may lag, or may not be read now.
        """
        first = self._left[0]
        if code == ResponseCode.PULL_OFFSET_MOVED and first < low:
            self._gone(low)
            return True
        hole = code in (ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)
        if hole and first < after <= high:
            self._gone(after)
            return True
        return False

    def _gone(self, below: int) -> None:
        for at in [at for at in self._left if at < below]:
            self._left.remove(at)
            self.found[at] = None


# Remote messages -----------------------------------------------------------------------------


TIMEOUT_MS = 5_000
KEEP_MS = 2_000
"""How long (ms) a looked-up broker address is used."""
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
    """Fetches messages from other broker groups; each `fetch` runs in its own task."""

    def __init__(self, peers: Peers, addresses: Sequence[str], clock: Clock) -> None:
        self._peers = peers
        self._addresses = list(addresses)
        self._clock = clock
        self._places: dict[tuple[str, str], tuple[int, str]] = {}
        self._tasks = TaskSet()
        self._closed = False

    def fetch(self, found: CheckPoint, offsets: Sequence[int], came: Came) -> None:
        """Read the messages of a check point at the given queue offsets.

        `came` is called once, later: with the messages, or with None if no broker answered. It is
        not called after `close`.
        """
        if self._closed:
            return
        self._tasks.spawn(self._fetch(found, offsets, came))

    async def close(self) -> None:
        """Cancel the running reads without calling their callbacks, and close the connections."""
        self._closed = True
        await self._tasks.close()
        await self._peers.close()

    async def _fetch(self, found: CheckPoint, offsets: Sequence[int], came: Came) -> None:
        messages: Mapping[int, StoredMessage | None] | None = None
        place = (found.topic, found.broker_name or "")
        try:
            messages = await self._read(found, offsets, await self._address(*place))
        except EpochError as error:
            self._places.pop(place, None)
            log.warning(
                "messages of %(topic)s at %(broker)s cannot be read: %(error)s",
                {"topic": place[0], "broker": place[1], "error": error},
            )
        finally:
            if not self._closed:
                came(messages)

    async def _address(self, topic: str, name: str) -> str:
        """Return the address of the broker with the smallest id in the route: normally the master.

        Raises `NotReachable` if no name server knows a broker of that name.
        """
        now = self._clock.now_ms()
        known = self._places.get((topic, name))
        if known is not None and now < known[0]:
            return known[1]
        header = GetRouteHeader(topic, acceptStandardJsonOnly=True, ownAddresses=True)
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
                wanted.came(decode_messages(answer.body))
                continue
            if answer.code not in _EMPTY:
                raise NotReachable(f"{address} answers {answer.code}: {answer.remark}")
            said = decode_header(PullResponseHeader, answer.ext)
            if not wanted.none(answer.code, said.minOffset, said.maxOffset, said.nextBeginOffset):
                break
        return wanted.found
