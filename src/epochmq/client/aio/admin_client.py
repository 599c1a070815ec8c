"""`Admin`: every call that the command line and tests make to brokers and name servers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from epochmq.base.errors import EpochError, NotFound, Refused
from epochmq.base.unbounded import LONG_MAX
from epochmq.client.aio.admin_calls import SLOW_TIMEOUT_MS, ask_all, pick_address
from epochmq.client.aio.admin_controllers import ClusterCalls, ControllerCalls
from epochmq.client.aio.admin_groups import is_offline
from epochmq.client.aio.admin_progress import ProgressCalls
from epochmq.client.aio.broker_calls import BrokerCalls
from epochmq.client.core.consumer_state import PullStatus
from epochmq.model import record
from epochmq.model.group import build
from epochmq.model.host import BadAddress, format_addr
from epochmq.model.message import StoredMessage
from epochmq.model.message_id import BadMessageId, parse_offset_id
from epochmq.model.names import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TOOLS_GROUP,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from epochmq.model.property_names import REAL_TOPIC
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.group_bodies import BROADCASTING, CONSUME_ACTIVELY, ConsumerConnection
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.headers.offset_headers import QueryMessageHeader, ViewMessageHeader
from epochmq.wire.headers.send_headers import ResumeCheckHalfHeader

# Admin messages ------------------------------------------------------------------------------
# Finding messages: by either id, by key, by place; and what became of them in each group.


KEY_COUNT = 64
UNIQ_KEY_COUNT = 32


@dataclass(frozen=True, slots=True)
class Track:
    """What became of a message in one group: RocketMQ's name of it, and why if that is unsure."""

    group: str
    kind: str
    problem: str | None = None


class MessageCalls(ProgressCalls):
    """Calls that find messages."""

    async def message(
        self, topic: str, msg_id: str, *, cluster: str | None = None
    ) -> StoredMessage:
        """A message by its client's or its offset id; `NotFound` when there is none.

        Both ids look alike; one with the port of a broker of the topic is tried as an offset id.
        """
        brokers = await self.brokers_of(topic)
        found = await self.message_by_place(msg_id, brokers.values())
        if found is not None:
            return found
        messages = await self.messages_by_uniq_key(topic, msg_id, cluster=cluster)
        if not messages:
            raise NotFound(f"no message of topic {topic} has the id {msg_id}")
        return messages[0]

    async def message_by_place(self, msg_id: str, brokers: Iterable[str]) -> StoredMessage | None:
        """The message where an offset id says, at a broker with its port; None if none is there.

        The host is not compared: brokers may be known by a name.
        """
        try:
            _, port, offset = parse_offset_id(msg_id)
        except (BadMessageId, BadAddress):
            return None
        for address in brokers:
            if not address.endswith(f":{port}"):
                continue
            try:
                message = await self.message_at(address, offset)
            except Refused:
                continue  # no message begins there; it may still be a client's id
            if message.offset_msg_id == msg_id.upper():
                return message
        return None

    async def message_at(self, address: str, offset: int) -> StoredMessage:
        """The message at a byte of one broker's log (33)."""
        command = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=offset))
        return record.decode(bytes((await self.ask(address, command)).body))

    async def resume_check_half(self, address: str, msg_id: str) -> None:
        """Have a master ask again about a transaction that it gave up (323).

        `msg_id` is the offset id of the message in TRANS_CHECK_MAX_TIME_TOPIC.
        """
        header = ResumeCheckHalfHeader(msgId=msg_id, topic=TRANS_CHECK_MAX_TIME_TOPIC)
        await self.ask(address, request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        count: int = KEY_COUNT,
        begin_ms: int = 0,
        end_ms: int = LONG_MAX,
        cluster: str | None = None,
    ) -> list[StoredMessage]:
        """Messages with `key` among their keys, stored between two wall times."""
        header = QueryMessageHeader(
            topic=topic, key=key, maxNum=count, beginTimestamp=begin_ms, endTimestamp=end_ms
        )
        return await self._query(header, cluster, lambda message: key in message.keys)

    async def messages_by_uniq_key(
        self, topic: str, uniq_key: str, *, cluster: str | None = None
    ) -> list[StoredMessage]:
        """Messages whose producer gave them this id: more than one after resends."""
        header = QueryMessageHeader(
            topic=topic,
            key=uniq_key,
            maxNum=UNIQ_KEY_COUNT,
            beginTimestamp=0,
            endTimestamp=LONG_MAX,
            uniqueKey=True,
        )
        return await self._query(header, cluster, lambda message: message.uniq_key == uniq_key)

    async def waiting_messages(self, topic: str, uniq_key: str) -> list[StoredMessage]:
        """Messages for `topic` with this id that are not there yet: delayed, timed, half."""
        found: list[StoredMessage] = []
        for hidden in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC):
            header = QueryMessageHeader(
                topic=hidden,
                key=uniq_key,
                maxNum=UNIQ_KEY_COUNT,
                beginTimestamp=0,
                endTimestamp=LONG_MAX,
                uniqueKey=True,
            )
            found += await self._query(
                header,
                None,
                lambda message: (
                    message.uniq_key == uniq_key and message.properties.get(REAL_TOPIC) == topic
                ),
                at=topic,
            )
        return found

    async def message_in(self, queue: MessageQueue, offset: int) -> StoredMessage:
        """The message at `offset` of a queue; `NotFound` tells which offsets there are."""
        await self.instance.ensure_route(queue.topic)
        calls = BrokerCalls(self.instance, TOOLS_GROUP)
        pulled = await calls.pull(queue, offset, 1, build(queue.topic, "*", version=0))
        if pulled.status is not PullStatus.FOUND:
            raise NotFound(
                f"{queue} has no message at {offset}; "
                f"it has {pulled.min_offset} up to, not including, {pulled.max_offset}"
            )
        return pulled.messages[0]

    async def tracks(self, message: StoredMessage) -> list[Track]:
        """What became of `message` in each group that consumes its topic."""
        groups = await self.groups_of(message.topic)
        return [await self._track(message, group) for group in groups]

    async def _query(
        self,
        header: QueryMessageHeader,
        cluster: str | None,
        matches: Callable[[StoredMessage], bool],
        *,
        at: str | None = None,
    ) -> list[StoredMessage]:
        """Ask all brokers of the topic, or of the topic `at`.

        Index keys are hashes, so strangers are left out.
        """
        command = request(RequestCode.QUERY_MESSAGE, header)
        route = await self.route(at or header.topic)
        chosen = [d for d in route.broker_datas if cluster in (None, d.cluster)]
        addresses = sorted(filter(None, map(pick_address, chosen)))

        async def found_at(address: str) -> list[StoredMessage]:
            try:
                answer = await self.ask(address, command, SLOW_TIMEOUT_MS)
            except Refused as error:
                if error.code == ResponseCode.QUERY_NOT_FOUND:
                    return []
                raise
            return record.decode_all(answer.body)

        lists = (await ask_all(addresses, found_at)).values()
        messages = [m for each in lists for m in each if m.topic == header.topic and matches(m)]
        return sorted(messages, key=lambda m: (m.store_wall_ms, m.offset))

    async def _track(self, message: StoredMessage, group: str) -> Track:
        try:
            members = await self.consumers(group)
            if members.consume_type == CONSUME_ACTIVELY:
                return Track(group, "PULL")
            if members.message_model == BROADCASTING:
                return Track(group, "CONSUME_BROADCASTING")
            if not await self._is_consumed(message, group):
                return Track(group, "NOT_CONSUME_YET")
        except Refused as error:
            kind = "NOT_ONLINE" if is_offline(error) else "UNKNOWN"
            return Track(group, kind, f"CODE:{error.code} DESC:{error.remark}")
        except EpochError as error:
            return Track(group, "UNKNOWN", str(error))
        return Track(group, "CONSUMED" if _wants(members, message) else "CONSUMED_BUT_FILTERED")

    async def _is_consumed(self, message: StoredMessage, group: str) -> bool:
        table, _ = await self.progress(group)
        brokers = await self.brokers_of(message.topic)
        host, port = message.store_host
        return any(
            queue.topic == message.topic
            and queue.queue_id == message.queue_id
            and brokers.get(queue.broker_name) == format_addr(host, port)
            and at.consumer_offset > message.queue_offset
            for queue, at in table.items()
        )


def _wants(members: ConsumerConnection, message: StoredMessage) -> bool:
    data = members.subscription_table.get(message.topic)
    return data is None or not data.tags_set or message.tags in data.tags_set


# Admin client --------------------------------------------------------------------------------


class Admin(ClusterCalls, ControllerCalls, MessageCalls):
    """Use as `async with Admin("127.0.0.1:9876") as admin: ...`.

    Works against RocketMQ's brokers and name servers as well. Raises `NotReachable` without an
    answer, `NotFound` for topics, groups, clusters and messages that are not there, and `Refused`
    with the peer's code and remark for everything else.
    """
