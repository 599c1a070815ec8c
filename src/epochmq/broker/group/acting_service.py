"""Carries out the effects of the acting-master core: heartbeats, polls, probes, role changes.

The service runs on every plain broker with enableSlaveActingMaster, in every role: it sends the
frequent heartbeats to the name servers, and `core.view` always shows the group's members.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from epochmq.base.errors import EnvironmentFault, EpochError
from epochmq.base.task_set import TaskSet
from epochmq.broker.config.broker_peers import broker_peers
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.acting_master import (
    Act,
    Acting,
    ActingOptions,
    ActingReport,
    Beat,
    Cease,
    Effect,
    FetchProgress,
    Poll,
    Probe,
    RegisterFully,
    Return,
)
from epochmq.broker.serving.roles import ROLES
from epochmq.model.host import split_addresses
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command
from epochmq.wire.header import decode_header
from epochmq.wire.headers.namesrv_headers import QueryDataVersionResponseHeader

POLL_TIMEOUT_MS = 3_000
PROBE_TIMEOUT_MS = 1_000
"""How long a probe waits, in ms. The host of a lost master does not refuse the connection, so only
this timeout ends the attempt."""
COPIED_FILE = "config/epochmqTablesCopied"
"""This file exists once the master's tables have been copied for the first time into this store."""
DEBT_FILE = "config/epochmqOwesProgress"
"""This file exists from before this slave, as acting master, saves its first progress until the
master's tables contain all of that progress."""
MARK = b"yes\n"
DEBT_AGAIN_MS = 500
"""Pause in ms before another attempt to write `DEBT_FILE`."""

log = logging.getLogger(__name__)


def _copied_written(error: EnvironmentFault | None) -> None:
    if error is not None:
        log.error("it cannot be saved that the tables were copied: %(error)s", {"error": error})


class ActingService:
    """Runs `Acting`; the broker calls `tick`. `take` carries out role changes; `register` sends a
    full registration to one name server."""

    def __init__(
        self,
        node: BrokerContext,
        register: Callable[[str], None],
        take: Callable[[Act | Cease | Return | FetchProgress], None],
    ) -> None:
        options = node.options
        servers = split_addresses(options.namesrv_addr)
        self.core = Acting(acting_options(options, node.address), servers, node.clock.now_ms())
        self._node = node
        self._register = register
        self._take = take
        self._heartbeat_timeout_ms = options.send_heartbeat_timeout_millis
        self._servers = broker_peers(options, on_close=self._lost)
        self._brokers = broker_peers(options, connect_timeout_ms=PROBE_TIMEOUT_MS)
        self._tasks = TaskSet()
        self._stopped = False
        self.core.ready = node.disk.exists(COPIED_FILE)
        self.in_debt = False
        """Whether this slave holds, or is about to make, progress that the master has not copied.
        `DEBT_FILE` then exists, unless `_unwritten`."""
        self._unwritten = False
        """Whether `DEBT_FILE` still has to be written. Until then no progress is saved: after a
        restart without the file, saved progress would be overwritten by the master's."""
        self._writing = self._refused = False
        """Whether the file is being written; whether the last attempt to write it failed."""
        self._write_at_ms = 0
        node.save_nothing_while(lambda: self._unwritten)
        if options.broker_id and node.disk.exists(DEBT_FILE):
            self.in_debt = self.core.owes = True
            node.offsets.keep_own()
            log.info(
                "the master may not have taken back yet the progress that this broker made for it"
            )

    def tick(self, now: int) -> None:
        """Run the core and carry out the effects that are due."""
        if self._stopped:
            return
        self.core.registers = ROLES[self._node.serving.role].registers
        self.core.able = self._node.store.fenced is None
        self._carry_out(self.core.tick(now, self._node.topics.version))
        if self._unwritten and now >= self._write_at_ms:
            self._write_debt()

    def next_deadline(self) -> int:
        return self.core.next_deadline()

    async def stop(self) -> None:
        """Stop: cancel all requests and close all connections."""
        self._stopped = True
        if self._unwritten:
            self._write_debt()
        await self._tasks.close()
        await self._servers.close()
        await self._brokers.close()

    # Events from the broker ------------------------------------------------------------------

    def copied(self) -> None:
        """Note that the master's tables were copied: from now on this slave may become acting
        master."""
        if not self.core.ready:
            self.core.ready = True
            write = partial(self._node.disk.write_file, COPIED_FILE, MARK)
            self._node.ports.write_in_background(write, _copied_written)

    def took(self) -> None:
        """Note that the progress of other members was fetched, as far as they can be reached."""
        if not self._stopped:
            now = self._node.clock.now_ms()
            self._carry_out(self.core.took(now))
            self.tick(now)

    def begin_debt(self) -> None:
        """Record, before the first action as acting master, that the master must copy this slave's
        progress; the record survives restarts."""
        self._node.offsets.keep_own()
        if not self.in_debt:
            self.in_debt = True
            self._write_debt()

    def _write_debt(self) -> None:
        """Start writing `DEBT_FILE`. Until it is written (the disk may be full) nothing is saved;
        reads, locks and everything else go on."""
        if self._writing:
            return
        self._unwritten = self._writing = True

        def written(error: EnvironmentFault | None) -> None:
            refused, self._refused = self._refused, error is not None
            self._writing, self._unwritten = False, self._refused
            self._write_at_ms = self._node.clock.now_ms() + DEBT_AGAIN_MS
            if error is not None and not refused:
                log.error(
                    "it cannot be saved that the master needs this broker's progress: %(error)s",
                    {"error": error},
                )
            if refused and error is None:
                log.info("it is saved that the master needs this broker's progress")

        self._node.ports.write_in_background(
            partial(self._node.disk.write_file, DEBT_FILE, MARK), written
        )

    def end_debt(self) -> None:
        """Remove `DEBT_FILE` once the master's tables contain everything, judged by this slave's
        copy of them."""
        if not self.in_debt or self._writing or self.core.owes or self.core.acting:
            return
        if self._node.offsets.ahead is None:
            self._node.disk.remove(DEBT_FILE)
            self.in_debt = self._unwritten = False

    def poll_soon(self) -> None:
        """Poll the name servers now: something may have changed."""
        if not self._stopped:
            self.core.hint(self._node.clock.now_ms())
            self.tick(self._node.clock.now_ms())

    def step_down(self, why: str) -> None:
        """Stop acting before this method returns, and do not act for a while."""
        self._carry_out(self.core.step_down(why, self._node.clock.now_ms()))

    def figures(self) -> dict[str, str]:
        """Return the figures for GET_BROKER_RUNTIME_INFO: the members, and the last answers of the
        name servers."""
        view = self.core.view
        members = ",".join(f"{number}@{address}" for number, address in view.members().items())
        said = ",".join(f"{k}={n}" for k, n in view.statistics().items() if n)
        owes = str(self.in_debt and not self.core.acting).lower()
        return {
            "epochmqGroupMembers": members,
            "epochmqNameServersSaid": said,
            "epochmqOwesProgress": owes,
        }

    # Carrying out ----------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Beat():
                    self._spawn(self._beat(effect))
                case Poll():
                    self._spawn(self._poll(effect))
                case Probe():
                    self._spawn(self._probe(effect))
                case RegisterFully():
                    log.info(
                        "registering again at name server %(address)s", {"address": effect.address}
                    )
                    self._register(effect.address)
                case ActingReport():
                    log.warning("%(text)s", {"text": effect.text})
                case _:
                    self._take(effect)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._stopped:
            work.close()
            return
        self._tasks.spawn(work)

    async def _beat(self, beat: Beat) -> None:
        """Send a heartbeat; a heartbeat that does not arrive is only logged."""
        timeout_ms = self._heartbeat_timeout_ms
        try:
            if not beat.asked:
                await self._servers.oneway(beat.address, beat.command, timeout_ms)
                return
            answer = await self._servers.invoke(beat.address, beat.command, timeout_ms)
            if answer.code == ResponseCode.SUCCESS:
                changed = decode_header(QueryDataVersionResponseHeader, answer.ext).changed
                now = self._node.clock.now_ms()
                self._carry_out(self.core.beaten(beat.address, changed=changed, now=now))
        except EpochError as error:
            log.debug(
                "heartbeat to %(address)s: %(error)s", {"address": beat.address, "error": error}
            )

    async def _poll(self, poll: Poll) -> None:
        answer, problem = await self._ask(self._servers, poll.address, poll.command)
        now = self._node.clock.now_ms()
        self._carry_out(self.core.polled(poll.address, answer, now, problem))
        self.tick(now)

    async def _probe(self, probe: Probe) -> None:
        answer, _ = await self._ask(
            self._brokers, probe.address, probe.command, timeout_ms=PROBE_TIMEOUT_MS
        )
        self._carry_out(self.core.probed(probe, answer, self._node.clock.now_ms()))

    async def _ask(
        self, peers: Peers, address: str, command: Command, timeout_ms: int = POLL_TIMEOUT_MS
    ) -> tuple[Command | None, str]:
        try:
            return await peers.invoke(address, command, timeout_ms), ""
        except EpochError as error:
            return None, str(error)

    def _lost(self, address: str) -> None:
        if not self._stopped:
            self.core.lost(address, self._node.clock.now_ms())


def acting_options(options: BrokerOptions, own_address: str) -> ActingOptions:
    return ActingOptions(
        cluster=options.broker_cluster_name,
        name=options.broker_name,
        own_id=options.broker_id,
        own_address=own_address,
        compat=options.compatible_with_old_name_srv,
        heartbeat_ms=options.broker_heartbeat_interval,
        poll_ms=options.sync_broker_member_group_period,
        not_active_ms=options.broker_not_active_timeout_millis,
    )
