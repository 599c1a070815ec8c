"""`Admin`: requests of operators to brokers, name servers and controllers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from epochmq.base.errors import EpochError, NotFound, Refused
from epochmq.base.unbounded import LONG_MAX
from epochmq.client.aio.admin_auth import AuthCalls
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
from epochmq.wire.pulled_messages import decode_messages

# Admin messages ------------------------------------------------------------------------------
# Search for messages by id, key or position, and their consumption state in each group.


KEY_COUNT = 64
UNIQ_KEY_COUNT = 32


@dataclass(frozen=True, slots=True)
class Track:
    """The consumption state of a message in one group.

    Attributes:
        group: name of the consumer group.
        kind: the state, by RocketMQ's name, for example CONSUMED or NOT_CONSUME_YET.
        problem: why the state is not certain, or None.
    """

    group: str
    kind: str
    problem: str | None = None


class MessageCalls(ProgressCalls):
    """Requests that find messages."""

    async def message(
        self, topic: str, msg_id: str, *, cluster: str | None = None
    ) -> StoredMessage:
        """Return a message by its id.

        Client ids and offset ids look alike. An id is tried as an offset id first, at the brokers
        of the topic that have its port.

        Args:
            topic: name of the topic.
            msg_id: the client's id (UNIQ_KEY) or the offset id.
            cluster: search only brokers of this cluster by client id; None means all clusters.

        Raises:
            NotFound: no message has this id, or the topic does not exist.
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
        """Return the message that an offset id names, or None.

        The host in the id is not compared, because brokers may be known by a name.

        Args:
            msg_id: the offset id; any other text gives None.
            brokers: addresses of brokers; only those with the port of the id are asked.
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
                continue  # no message begins at that offset; the text may still be a client's id
            if message.offset_msg_id == msg_id.upper():
                return message
        return None

    async def message_at(self, address: str, offset: int) -> StoredMessage:
        """Return the message at commit log offset `offset` of the broker at `address` (33)."""
        command = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=offset))
        return record.decode(bytes((await self.ask(address, command)).body))

    async def resume_check_half(self, address: str, msg_id: str) -> None:
        """Ask a master to check a transaction again that it gave up (323).

        Args:
            address: address of the master.
            msg_id: offset id of the message in TRANS_CHECK_MAX_TIME_TOPIC.
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
        """Return the messages that have `key` among their keys, ordered by store time.

        Args:
            topic: name of the topic.
            key: one key, compared exactly.
            count: messages that each broker returns at most.
            begin_ms: earliest store time, in Unix milliseconds.
            end_ms: latest store time, in Unix milliseconds.
            cluster: ask only brokers of this cluster; None means all clusters.
        """
        header = QueryMessageHeader(
            topic=topic, key=key, maxNum=count, beginTimestamp=begin_ms, endTimestamp=end_ms
        )
        return await self._query(header, cluster, lambda message: key in message.keys)

    async def messages_by_uniq_key(
        self, topic: str, uniq_key: str, *, cluster: str | None = None
    ) -> list[StoredMessage]:
        """Return the messages with this client id (UNIQ_KEY); repeated sends may give several."""
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
        """Return the messages for `topic` with this id that consumers cannot see yet.

        These are delayed messages, messages with an exact time, and half messages of transactions.
        """
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
        """Return the message at queue offset `offset` of `queue`.

        Raises:
            NotFound: there is none; the text names the offsets that the queue has.
        """
        calls = BrokerCalls(self.instance, TOOLS_GROUP)
        async with self.instance.routed(queue.topic):
            pulled = await calls.pull(queue, offset, 1, build(queue.topic, "*", version=0))
        if pulled.status is not PullStatus.FOUND:
            raise NotFound(
                f"{queue} has no message at {offset}; "
                f"it has {pulled.min_offset} up to, not including, {pulled.max_offset}"
            )
        return pulled.messages[0]

    async def tracks(self, message: StoredMessage) -> list[Track]:
        """Return the consumption state of `message` in each group that consumes its topic."""
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
        """Ask all brokers of the topic, or of the topic `at`, for messages by key.

        Index entries hold hashes of keys, so messages that do not match are removed here.
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
            return decode_messages(answer.body)

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


class Admin(ClusterCalls, ControllerCalls, MessageCalls, AuthCalls):
    """Requests of operators. Use as `async with Admin("127.0.0.1:9876") as admin: ...`.

    It works with brokers and name servers of RocketMQ as well. Numbers in parentheses in the
    methods' descriptions are request codes. Every method may raise the errors below.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        timeout_ms: milliseconds for one request; some slow requests use 15,000.
        tls: settings of TLS; None means the setting of the process, by default no TLS.
        credentials: the user who signs the requests; None means the user of the process, if any.

    Raises:
        NotReachable: a server does not answer in time.
        NotFound: a topic, group, cluster or message does not exist.
        Refused: a server refuses; `code` and `remark` are those of its answer.
        UsageError: an argument is wrong, or this client cannot be used.
    """
