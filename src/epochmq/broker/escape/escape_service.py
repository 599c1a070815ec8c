"""Sends the escape bridge's messages: to masters in this process, or by SEND_MESSAGE_V2 to others.

Each message is one task, and all messages to a master share one connection, so that many are in
flight at once. While there are messages to send, the service asks name servers for the masters and
for the routes of topics.
"""

import asyncio
import logging
from collections.abc import Sequence

from epochmq.base.errors import EpochError, NotReachable
from epochmq.base.task_set import TaskSet
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.escape.escape_bridge import Escape, ForwardItems, SendOutcome
from epochmq.broker.escape.forward_batch import (
    ForwardedMessage,
    HandedOverHalves,
    Where,
    forward_request,
    item_of,
)
from epochmq.broker.escape.local_routes import ContainerBrokers, Neighbour, NobodyNear
from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.broker.transaction.ending import Answer
from epochmq.model.revive_routing import favourite, pinned, place_of
from epochmq.model.topic import PERM_WRITE, TopicConfig, TopicRouteData
from epochmq.runtime.peers import Peers
from epochmq.store.draft import Draft
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.namesrv_bodies import ClusterInfo
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.headers.fast_headers import AnyEnd
from epochmq.wire.headers.namesrv_headers import GetRouteHeader
from epochmq.wire.headers.send_headers import EndTransactionHeader
from epochmq.wire.headers.topic_headers import creation

SEND_TIMEOUT_MS = 5_000
"""Longer than a master waits for its replicas, because its own answer says more than a timeout
(ms)."""
ASK_TIMEOUT_MS = 3_000
MAKE_PAUSE_MS = 1_000
"""The pause between two attempts to create topics (ms)."""
_WEAK = frozenset(
    {
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)

log = logging.getLogger(__name__)


class EscapeService:
    """The write `Route` of a broker that may not write itself; ticked by the broker."""

    def __init__(
        self,
        node: BrokerContext,
        peers: Peers,
        addresses: Sequence[str],
        *,
        neighbours: ContainerBrokers | None = None,
    ) -> None:
        options = node.options
        self.core = Escape(options.broker_name)
        self.neighbours: ContainerBrokers = neighbours or NobodyNear()
        self.near = 0
        """The number of messages that masters in this process took."""
        self._node = node
        self._peers = peers
        self._addresses = list(addresses)
        self._remote = options.enable_remote_escape
        self._group = f"InnerProducerGroup_{options.broker_name}_{options.broker_id}"
        self._tasks = TaskSet()
        self._asked = False
        self._stopped = False
        self._refusal = ""
        self._make_ms = 0
        self._halves = HandedOverHalves()

    # The route -------------------------------------------------------------------------------

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        name = self._node.options.broker_name
        items = [item for draft in drafts if (item := item_of(draft, name)) is not None]
        if self._stopped or len(items) < len(drafts):
            done([WriteOutcome.LATER] * len(drafts))
            return
        near = self._near(items)
        if near is not None:
            near.put(drafts, origin, wall, self._counted(done))
        elif self._remote:
            self.core.put(items, done, self._node.clock.now_ms())
            self._soon()
        else:
            done([WriteOutcome.LATER] * len(drafts))

    def _near(self, items: Sequence[ForwardedMessage]) -> Neighbour | None:
        """Return the master in this process that takes all items; they are of one kind, mostly of
        one topic."""
        wanted = items[0]
        masters = {near.name: near for near in self.neighbours.masters()}
        if wanted.where is Where.PINNED:
            return next((n for n in masters.values() if place_of(n.name) == wanted.place), None)
        topics = {item.topic for item in items}
        able = [name for name, near in masters.items() if all(map(near.accepts, topics))]
        name = favourite(f"{self._node.options.broker_name}@{wanted.topic}", able)
        return None if name is None else masters[name]

    def _counted(self, done: Done) -> Done:
        def counted(outcomes: Sequence[WriteOutcome]) -> None:
            self.near += sum(outcome is WriteOutcome.STORED for outcome in outcomes)
            done(outcomes)

        return counted

    def choose_pin(self, topic: str) -> int | None:
        """Return the revive queue number for check points of `topic`; None when no master can keep
        them."""
        node = self._node
        masters = {near.name: near for near in self.neighbours.masters() if near.accepts(topic)}
        name = favourite(f"{node.options.broker_name}@{topic}", masters)
        if name is not None:
            return pinned(place_of(name), node.next_number() % node.pop.revive_queues())
        if not self._remote:
            return None
        now = node.clock.now_ms()
        found = self.core.choose_pin(topic, node.pop.topic, now)
        if found is None:
            self._make_topic(topic, now)
        self._soon()
        return found

    def _make_topic(self, topic: str, now: int) -> None:
        """Create `topic` at a master: a master without the topic drops its check points, or no
        client pops there (H17)."""
        config = self._node.topics.get(topic)
        address = self.core.maker(topic, self._node.pop.topic, now)
        if config is None or address is None or now < self._make_ms:
            return
        self._make_ms = now + MAKE_PAUSE_MS
        self._tasks.spawn(self._create(address, config))

    async def _create(self, address: str, config: TopicConfig) -> None:
        command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, creation(config))
        try:
            answer = await self._peers.invoke(address, command, SEND_TIMEOUT_MS)
            log.info(
                "topic %(topic)s is created at %(address)s: %(code)s",
                {"topic": config.topic_name, "address": address, "code": answer.code},
            )
        except NotReachable as error:
            log.info(
                "topic %(topic)s cannot be created: %(error)s",
                {"topic": config.topic_name, "error": error},
            )
        self.core.masters.look_again(self._node.clock.now_ms())
        self._soon()

    # Work ------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Send the messages and the questions that are due; each runs as a task."""
        rights = self._node.serving.rights
        is_acting = rights.secondary and not rights.writable
        core = self.core
        if core.active and not is_acting:
            core.stop()
        core.active = is_acting and self._remote
        if self._stopped:
            return
        for send in core.sends(now):
            self._tasks.spawn(self._send(send))
        wants = core.asks(now)
        if wants.groups:
            self._tasks.spawn(self._ask_groups())
        for topic in wants.topics:
            self._tasks.spawn(self._ask_topic(topic))

    def next_deadline(self) -> int | None:
        return self.core.next_deadline()

    async def close(self) -> None:
        """Stop sending; open messages get the outcome LATER."""
        self._stopped = True
        self.core.stop()
        await self._tasks.close()
        await self._peers.close()

    def figures(self, now: int) -> dict[str, str]:
        """Return the figures for GET_BROKER_RUNTIME_INFO."""
        found = self.core.statistics()
        return {
            "epochmqEscapeWaiting": str(found["waiting"]),
            "epochmqEscapeInFlight": str(found["in_flight"]),
            "epochmqEscapeOldestMs": str(self.core.oldest_ms(now)),
            "epochmqEscapeMasters": str(found["masters"]),
            "epochmqEscapeStored": str(found["stored"]),
            "epochmqEscapeNear": str(self.near),
            "epochmqEscapeAgain": str(found["again"]),
            "epochmqEscapeRefused": str(found["refused"]),
            "epochmqEscapeLastRefusal": self._refusal,
        }

    def _soon(self) -> None:
        if not self._asked:
            self._asked = True
            self._node.ports.soon(self._run)

    def _run(self) -> None:
        self._asked = False
        self.tick(self._node.clock.now_ms())

    # Sending ---------------------------------------------------------------------------------

    async def _send(self, send: ForwardItems) -> None:
        verdict = SendOutcome.LOST
        try:
            verdict = await self._deliver(send)
        finally:
            if not self._stopped:
                self.core.answered(send, verdict, self._node.clock.now_ms())
                self._soon()

    async def _deliver(self, send: ForwardItems) -> SendOutcome:
        try:
            async with asyncio.timeout(ASK_TIMEOUT_MS / 1000):
                peer = await self._peers.get(send.address)
        except (NotReachable, TimeoutError) as error:
            log.info(
                "cannot forward to %(broker)s (%(address)s): %(error)s",
                {"broker": send.name, "address": send.address, "error": error},
            )
            return SendOutcome.UNREACHED
        command = forward_request(send.forward_item.item, self._group)
        try:
            answer = await peer.invoke(command, SEND_TIMEOUT_MS)
        except EpochError as error:
            log.warning(
                "forwarding to %(broker)s: it is not known whether the message is stored:"
                " %(error)s",
                {"broker": send.name, "error": error},
            )
            return SendOutcome.LOST
        verdict = self._judge(send, answer)
        if verdict is SendOutcome.HELD:
            self._halves.note(send.forward_item.item, send.address, answer)
        return verdict

    def _judge(self, send: ForwardItems, answer: Command) -> SendOutcome:
        if answer.code == ResponseCode.SUCCESS:
            return SendOutcome.HELD
        topic = send.forward_item.item.topic
        text = f"{send.name} answers {answer.code} for {topic}: {answer.remark}"
        if text != self._refusal:
            self._refusal = text
            log.warning("escape: %(text)s", {"text": text})
        return SendOutcome.WEAK if answer.code in _WEAK else SendOutcome.REFUSED

    def end_elsewhere(self, header: AnyEnd, key: str, answer: Answer) -> bool:
        """End a transaction at the master that got its half message; return False when that is
        unknown."""
        found = self._halves.follow(header, key)
        if found is None or self._stopped:
            return False
        self._tasks.spawn(self._end(*found, answer))
        return True

    async def _end(self, address: str, header: EndTransactionHeader, answer: Answer) -> None:
        try:
            command = request(RequestCode.END_TRANSACTION, header)
            said = await self._peers.invoke(address, command, SEND_TIMEOUT_MS)
            answer(Reply(said.code, said.remark))
        except NotReachable as error:
            text = f"the half message was handed over, and its broker asks the producer: {error}"
            answer(Reply(ResponseCode.SYSTEM_ERROR, text))

    # Asking ----------------------------------------------------------------------------------

    async def _ask_groups(self) -> None:
        answer = await self._ask(request(RequestCode.GET_BROKER_CLUSTER_INFO))
        masters = self.core.masters
        now = self._node.clock.now_ms()
        try:
            if answer is None or answer.code != ResponseCode.SUCCESS:
                raise NotReachable("no answer")
            masters.groups_came(self._others(decode_answer(ClusterInfo, answer.body)), now)
        except EpochError as error:
            log.info("the cluster's masters cannot be asked: %(error)s", {"error": error})
            masters.groups_failed(now)
        self._soon()

    def _others(self, cluster: ClusterInfo) -> dict[str, str]:
        """Return the masters of the other groups of this cluster (rocketmq#7923, H15)."""
        options = self._node.options
        names = cluster.cluster_addr_table.get(options.broker_cluster_name, ())
        groups = {name: cluster.broker_addr_table.get(name) for name in names}
        return {
            name: group.broker_addrs[0]
            for name, group in sorted(groups.items())
            if group is not None and name != options.broker_name and 0 in group.broker_addrs
        }

    async def _ask_topic(self, topic: str) -> None:
        header = GetRouteHeader(topic, acceptStandardJsonOnly=True, ownAddresses=True)
        answer = await self._ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        masters, now = self.core.masters, self._node.clock.now_ms()
        try:
            if answer is not None and answer.code == ResponseCode.TOPIC_NOT_EXIST:
                masters.topic_came(topic, {}, now)
            elif answer is not None and answer.code == ResponseCode.SUCCESS:
                masters.topic_came(topic, writable(decode_answer(TopicRouteData, answer.body)), now)
            else:
                masters.topic_failed(topic, now)
        except EpochError as error:
            log.info("there is no route of %(topic)s: %(error)s", {"topic": topic, "error": error})
            masters.topic_failed(topic, now)
        self._soon()

    async def _ask(self, command: Command) -> Command | None:
        """Return the answer of the first name server that answers; None when none does."""
        for address in self._addresses:
            try:
                return await self._peers.invoke(address, command, ASK_TIMEOUT_MS)
            except NotReachable as error:
                log.info("name server %(address)s: %(error)s", {"address": address, "error": error})
        return None


def writable(route: TopicRouteData) -> dict[str, int]:
    """Return the number of writable queues of each group in `route`."""
    return {
        data.broker_name: data.write_queue_nums
        for data in route.queue_datas
        if data.perm & PERM_WRITE and data.write_queue_nums > 0
    }
