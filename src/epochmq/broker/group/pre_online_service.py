"""Carries out a broker's pre-online steps: asks the members, compares logs, copies tables.

Ticked by the broker. `Host` is the part that changes the broker's role; `PreOnline` decides the
steps.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

import msgspec

from epochmq.base.errors import EpochError, NotReachable
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.name_servers_view import NameServersVerdict
from epochmq.broker.group.pre_online import AskAgain, GoOnline, PreOnline, PreOnlineCall, Step
from epochmq.broker.group.pre_online_peers import LogsAsked, Merge, PreOnlineClient, pull_tables
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import HARuntimeInfo
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import ExchangeHAInfoAnswer, ExchangeHAInfoHeader

SAID_AFTER_MS = 2_000
"""A state that lasts this long (ms) is logged."""

log = logging.getLogger(__name__)


class Host(Protocol):
    """The broker's membership, as pre-online needs it (`group/plain_member.py`)."""

    def group(self, now: int) -> tuple[NameServersVerdict, Mapping[int, str]]:
        """Return the name servers' verdict, and the other members."""
        ...

    def asked_ms(self, now: int) -> int:
        """Return when the name servers were asked for that (ms)."""
        ...

    def ask_again(self) -> None:
        """Poll the name servers now."""
        ...

    def unheard(self, now: int) -> str:
        """Return what is missing before `group` has a verdict; "" when nothing is."""
        ...

    def links_near(self) -> int:
        """Return how many slaves copy, and lag less than haMaxGapNotInSync."""
        ...

    def copying(self) -> tuple[int | None, str]:
        """As a slave: return the bytes or tables still missing, and a text; (0, "") when log and
        tables are copied."""
        ...

    def master_announced(self, master_address: str, ha_address: str, *, online: bool) -> None: ...

    def go_online(self, *, hold_services: bool) -> None:
        """Take the role and register; `hold_services`: another member may still act for a
        moment."""
        ...


class NotYet(Exception):
    """The step is not finished; `left` as for `PreOnline.not_yet`."""

    def __init__(self, left: int | None, detail: str) -> None:
        super().__init__(detail)
        self.left = left


class Diverged(Exception):
    """Two logs do not fit."""


class PreOnlineService:
    """Runs one broker's return; `core.online` is true when it is over."""

    def __init__(self, node: BrokerContext, host: Host, peers: Peers) -> None:
        self._node = node
        self._host = host
        self._peers = peers
        listed_ms = node.options.broker_not_active_timeout_millis
        self.core = PreOnline(node.options.broker_id, listed_ms // 2, listed_ms)
        self._logs = LogsAsked(node, peers)
        self._asking = PreOnlineClient(node, peers)
        self._merge = Merge(node)
        self._acts_on: set[str] = set()
        """Members that did not confirm their step-down: RocketMQ's members notice the master by
        themselves."""
        self._task: asyncio.Task[None] | None = None
        self._said = ""
        self._waits_for = ""
        self._waits_since_ms = 0
        self._is_said = False

    @property
    def state(self) -> str:
        """One line for operators: what is awaited."""
        text = self.core.state
        if self.core.online or self.core.attempts:
            return text
        missing = self._host.unheard(self._node.clock.now_ms())
        return f"{text}: {missing}" if missing else text

    def tick(self, now: int) -> None:
        """Run the core and carry out its effects."""
        if self.core.online:
            return
        is_copied = self._host.links_near() > 0
        verdict, others = self._host.group(now)
        asked_ms = self._host.asked_ms(now)
        for effect in self.core.tick(now, verdict, others, is_copied=is_copied, asked_ms=asked_ms):
            if isinstance(effect, GoOnline):
                log.info("online: %(why)s", {"why": effect.why})
                self._host.go_online(hold_services=bool(self._acts_on))
            elif isinstance(effect, AskAgain):
                self._host.ask_again()
            else:
                self._task = asyncio.get_running_loop().create_task(self._carry_out(effect))
        self._report()
        self._say_what_lasts(now)

    async def stop(self) -> None:
        """Stop: cancel the open step."""
        self.core.online = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _report(self) -> None:
        """Log each new problem once."""
        trouble = self.core.trouble
        if trouble != self._said:
            self._said = trouble
            if self.core.is_diverged:
                log.error("not online: %(trouble)s", {"trouble": trouble})
            elif trouble:
                log.warning("not online yet: %(trouble)s", {"trouble": trouble})

    def _say_what_lasts(self, now: int) -> None:
        """Log why the broker is not online yet, when a state lasts."""
        core = self.core
        if core.online:
            return
        if core.waits_for != self._waits_for:
            self._waits_for, self._waits_since_ms = core.waits_for, now
            self._is_said = False
        elif not self._is_said and now - self._waits_since_ms >= SAID_AFTER_MS:
            self._is_said = True
            log.info("not online yet: %(state)s", {"state": self.state})

    async def _carry_out(self, call: PreOnlineCall) -> None:
        core, clock = self.core, self._node.clock
        try:
            await self._do(call)
        except NotYet as later:
            core.not_yet(call, later.left, str(later), clock.now_ms())
        except Diverged as found:
            core.diverged(call, str(found), clock.now_ms())
        except (EpochError, msgspec.ValidationError, ValueError, TypeError) as error:
            core.failed(call, str(error), clock.now_ms())
        except Exception as error:
            log.exception(
                "%(step)s %(address)s", {"step": call.step.value, "address": call.address}
            )
            core.failed(call, f"{type(error).__name__}: {error}", clock.now_ms())
        else:
            core.done(call, clock.now_ms())
        self.tick(clock.now_ms())

    async def _do(self, call: PreOnlineCall) -> None:
        step, address = call.step, call.address
        if step is Step.COMPARE:
            trouble = await self._logs.compare(address, own_is_master=self.core.own_id == 0)
            if trouble:
                raise Diverged(trouble)
        elif step in (Step.PREPARE, Step.HAND_OVER):
            await self._announce(address, hand_over=step is Step.HAND_OVER)
        elif step is Step.LINK:
            await self._look_at_link(address)
        elif step in (Step.PULL, Step.PULL_AGAIN):
            await pull_tables(self._node, self._peers, self._merge, address)
        elif step is Step.ASK:
            await self._ask_master(address)
        else:
            left, detail = self._host.copying()
            if detail:
                raise NotYet(left, detail)

    # A master's steps ------------------------------------------------------------------------

    async def _announce(self, address: str, *, hand_over: bool) -> None:
        answer = await self._asking.announce(address, hand_over=hand_over)
        if hand_over:
            says = decode_header(ExchangeHAInfoAnswer, answer.ext)
            self._acts_on.discard(address)
            if not says.steppedDown:
                self._acts_on.add(address)

    async def _look_at_link(self, address: str) -> None:
        """Check that the member copies from this broker, and that a link exists here (H10)."""
        node = self._node
        answer = await self._asking.ask(address, request(RequestCode.GET_BROKER_HA_STATUS))
        found = decode_body(HARuntimeInfo, answer.body).ha_client_runtime_info
        follows = found.master_addr or "nobody"
        if follows != node.ha_address:
            raise NotYet(None, f"it copies from {follows}, not from {node.ha_address}")
        lag = max(0, node.store.pointers.appended - found.max_offset)
        if lag > node.options.ha_max_gap_not_in_sync:
            raise NotYet(lag, f"it lacks {lag} bytes")
        if not self._host.links_near():
            raise NotYet(None, "no link has come yet")

    # A slave's steps -------------------------------------------------------------------------

    async def _ask_master(self, address: str) -> None:
        """Ask the master for its replication address with a 906 without fields."""
        command = request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader())
        answer = await self._asking.ask(address, command)
        found = decode_header(ExchangeHAInfoHeader, answer.ext)
        if not found.masterHaAddress:
            raise NotReachable("it does not say that it is the master")
        node = self._node
        if node.options.sync_master_flush_offset_when_startup and not node.master_flush_offset:
            node.note_master_flush_offset(found.masterFlushOffset or 0)
        self._host.master_announced(
            found.masterAddress or address, found.masterHaAddress, online=True
        )
