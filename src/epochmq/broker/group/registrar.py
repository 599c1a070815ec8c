"""Sends registrations to the name servers, keeps the connections, and reports when a change is
known."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from epochmq.base.errors import EpochError, NotReachable
from epochmq.base.task_set import TaskSet
from epochmq.broker.config.broker_peers import broker_peers
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.registration import (
    SETTLE_TIMEOUT_MS,
    RegisterAt,
    RegistrationPlan,
    TopicsPart,
    parts_of,
)
from epochmq.broker.serving.roles import ROLES
from epochmq.model.crc import crc32
from epochmq.model.topic import PERM_MASK, PERM_READ_WRITE, TopicConfig
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.namesrv_headers import (
    RegisterBrokerHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerHeader,
)

UNREGISTER_TIMEOUT_MS = 1000

log = logging.getLogger(__name__)


class Registrar:
    """Registers the broker at all name servers; without name servers it does nothing."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node
        options = node.options
        addresses = [part.strip() for part in options.namesrv_addr.split(";") if part.strip()]
        self._core = RegistrationPlan(
            list(dict.fromkeys(addresses)),
            options.register_name_server_period,
            node.clock.now_ms(),
        )
        self._peers = broker_peers(options, on_close=self._closed)
        self._calls = TaskSet()
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._stopped = False
        self._reported: dict[str, str] = {}

    def tick(self, now: int) -> None:
        """Start the calls that are due; each runs as a task."""
        node = self._node
        self._core.change_period(node.options.register_name_server_period, now)
        if node.topics.changed:
            unsaved = partial(node.keeper.is_unsaved, node.topics)
            changed = node.topics.pop_changed(unsaved)
            self._core.topics_changed(config.topic_name for config in changed)
        for call in self._core.due(now) if self._may_register() else ():
            self._calls.spawn(self._register(call))
        self._release(now)

    def _may_register(self) -> bool:
        """Return whether name servers may list this broker; one without a place in its group stays
        hidden (INV-33)."""
        return not self._stopped and ROLES[self._node.serving.role].registers

    def when_settled(
        self, now: int, done: Callable[[], None], within_ms: int = SETTLE_TIMEOUT_MS
    ) -> None:
        """Call `done` when every name server knows all changes so far, at the latest after
        `within_ms`."""
        if self._stopped:
            done()
            return
        self._waiting.append((now + within_ms, done))
        self.tick(now)

    def everything_changed(self) -> None:
        self._core.everything_changed()

    def again(self, address: str) -> None:
        """Register now at a name server that does not know this broker (any more)."""
        now = self._node.clock.now_ms()
        self._core.forgotten(address, now)
        self.tick(now)

    def next_deadline(self) -> int | None:
        return self._core.next_deadline() if self._may_register() else None

    async def wait_registered(self) -> None:
        """Wait for the open calls; used at start, so that "ready" means registered."""
        await self._calls.wait()

    async def stop(self) -> None:
        """Unregister at all name servers, and close the connections.

        Callbacks that wait for a registration are called, because no further registration follows.
        """
        self._stopped = True
        await self._calls.close()
        farewells = [self._unregister(address) for address in self._core.addresses]
        await asyncio.gather(*farewells)
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done()
        await self._peers.close()

    @property
    def is_registered(self) -> bool:
        """Whether a name server has the registration; True for a broker without name servers."""
        return self._core.is_registered

    def statistics(self) -> Mapping[str, int]:
        return self._core.statistics()

    # Calls -----------------------------------------------------------------------------------

    async def _register(self, call: RegisterAt) -> None:
        ok = False
        try:
            timeout_ms = self._node.options.register_broker_timeout_mills
            for part in self._parts(call):
                command = self._command(part)
                answer = await self._peers.invoke(call.address, command, timeout_ms)
                ok = answer.code == ResponseCode.SUCCESS
                if not ok:
                    break
            if ok and self._node.replica is not None and not self._node.serving.is_master:
                told = decode_header(RegisterBrokerResponseHeader, answer.ext)
                self._node.replica.master_announced(
                    told.masterAddr or "", told.haServerAddr or "", online=True
                )
            refusal = "" if ok else f"refused with {answer.code} {answer.remark}"
            self._report(call.address, "registered" if ok else "refused", refusal)
        except NotReachable as error:
            self._report(call.address, "not reachable", str(error))
        except EpochError as error:
            log.error(
                "registration at %(address)s failed: %(error)s",
                {"address": call.address, "error": error},
            )
        finally:
            now = self._node.clock.now_ms()
            self._core.done(call, ok, now)
            self.tick(now)

    def _parts(self, call: RegisterAt) -> list[TopicsPart]:
        topics = self._node.topics
        if call.topics is None:
            return parts_of(list(topics.table), topics.version, is_all=True)
        return parts_of(call.topics, topics.version, is_all=False)

    def _command(self, part: TopicsPart) -> Command:
        node = self._node
        options = node.options
        topics = node.topics.table
        table = {name: self._shown(topics[name]) for name in part.topics if name in topics}
        body = encode_body(RegisterBrokerBody(TopicConfigTable(table, data_version=part.version)))
        acting = options.enable_slave_acting_master
        header = RegisterBrokerHeader(
            brokerName=options.broker_name,
            brokerAddr=node.address,
            clusterName=options.broker_cluster_name,
            haServerAddr=node.ha_address,
            brokerId=node.route_id,
            heartbeatTimeoutMillis=options.broker_not_active_timeout_millis if acting else None,
            enableActingMaster=acting,
            bodyCrc32=crc32(body),
            groupAddr=options.group_address or None,
            isPart=part.is_part or None,
        )
        return request(RequestCode.REGISTER_BROKER, header, body)

    def _shown(self, config: TopicConfig) -> TopicConfig:
        """Return the topic as clients see it: its permissions are limited to those of the
        broker."""
        allowed = self._node.options.broker_permission | PERM_MASK & ~PERM_READ_WRITE
        if config.perm & allowed == config.perm:
            return config
        return TopicConfig(
            config.topic_name,
            config.read_queue_nums,
            config.write_queue_nums,
            config.perm & allowed,
            config.topic_filter_type,
            config.topic_sys_flag,
            config.order,
            config.attributes,
        )

    async def _unregister(self, address: str) -> None:
        options = self._node.options
        node = self._node
        header = UnregisterBrokerHeader(
            options.broker_name, node.address, options.broker_cluster_name, node.route_id
        )
        command = request(RequestCode.UNREGISTER_BROKER, header)
        try:
            await self._peers.invoke(address, command, UNREGISTER_TIMEOUT_MS)
        except NotReachable as error:
            log.info(
                "name server %(address)s could not be notified of the stop: %(error)s",
                {"address": address, "error": error},
            )

    # What happens ----------------------------------------------------------------------------

    def _closed(self, address: str) -> None:
        self._core.lost(address, self._node.clock.now_ms())

    def _release(self, now: int) -> None:
        if not self._waiting or self._node.topics.changed:
            return
        settled = self._core.is_settled()
        ready = [done for deadline, done in self._waiting if settled or deadline <= now]
        if ready:
            self._waiting = [w for w in self._waiting if not (settled or w[0] <= now)]
            for done in ready:
                done()

    def _report(self, address: str, outcome: str, problem: str) -> None:
        """Log one line when the outcome at a name server changes, not one for each call."""
        if self._reported.get(address) == outcome:
            return
        self._reported[address] = outcome
        if problem:
            log.warning(
                "cannot register at name server %(address)s: %(problem)s",
                {"address": address, "problem": problem},
            )
        else:
            log.info("registered at name server %(address)s", {"address": address})
