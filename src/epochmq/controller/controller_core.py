"""The core of a controller: requests and events go in, effects come out, without I/O or randomness.

Handlers and elections read the replicated state and change it only by commands. A handler that must
wait is a generator (`controller/steps.py`).
"""

import heapq
import logging
from collections.abc import Callable
from typing import Any

from epochmq.base import limits
from epochmq.base.errors import HeaderError, OurBug, Refused, UsageError
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.controller.agreed import Agreed
from epochmq.controller.config_file import ConfigFile
from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_effects import Effect, ReadBarrier, SendReply
from epochmq.controller.controller_state import Key
from epochmq.controller.elections import Elections
from epochmq.controller.liveness_probe import LivenessProbe
from epochmq.controller.machine import CommandOutcome, Machine
from epochmq.controller.notices import Notices
from epochmq.controller.options import ControllerOptions
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Election, Steps, Write
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply

log = logging.getLogger(__name__)

CALL_MS = 4_000
"""A later answer is useless, because brokers wait three seconds."""

Handler = Callable[["ControllerCore", ControllerCall], Reply | Steps]


class ControllerCore:
    """One controller, leader or not.

    `handlers` answers requests by code; see `controller_request_table.py`.
    """

    def __init__(
        self,
        machine: Machine,
        options: ControllerOptions,
        handlers: "dict[int, tuple[Handler, bool]]",
        *,
        config: ConfigFile | None = None,
        safe: Safeguards = SAFE,
    ) -> None:
        self.context = ControllerContext(machine, options, safe=safe)
        self.config = config or ConfigFile(options.changes_path, None)
        self.notices = Notices(self.context)
        self.elections = Elections(self.context, self.notices)
        self.liveness_probe = LivenessProbe(self.context)
        self.agreed = Agreed(self.context)
        self._handlers = handlers
        self._calls: dict[int, ControllerCall] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._barriers: dict[int, ControllerCall] = {}
        self._next_expiry = 0
        self.recording: set[tuple[Key, int]] = set()
        """Replicas for which a command is running that no request waits for."""

    # Events -----------------------------------------------------------------------------------

    def request(self, token: int, request: Command, session_id: int, now: int) -> None:
        """Handle a request of connection `session_id`; a `SendReply` with `token` answers it."""
        self.context.now = now
        call = ControllerCall(token, request, session_id, now + CALL_MS)
        try:
            self._begin(call)
        except Exception as error:
            self._answer(call, _failure(error, request))

    def channel_closed(self, session_id: int, now: int) -> None:
        """Note that a connection closed. All its brokers are marked before any of them is handled
        (defects, part 2.20).
        """
        self.context.now = now
        for live in self.context.live.closed(session_id):
            self.liveness_probe.try_at(live)
            self._look(live.key)

    def dialed(self, ticket: int, refused: bool, now: int) -> None:
        """Handle the result of a `Dial`."""
        self.context.now = now
        key = self.liveness_probe.dialed(ticket, refused)
        if key is not None:
            self._look(key)

    def notified(self, ticket: int, acknowledged: bool, now: int) -> None:
        """Handle the result of an acknowledged `Notify`."""
        self.context.now = now
        self.notices.notified(ticket, acknowledged)

    def tick(self, now: int) -> None:
        """Do what is due at `now`."""
        self.context.now = now
        while self._deadlines and self._deadlines[0][0] <= now:
            _, token = heapq.heappop(self._deadlines)
            call = self._calls.get(token)
            if call is not None and call.deadline_ms <= now:
                self._give_up(call)
        self.liveness_probe.tick()
        if self.context.leads:
            self.elections.tick()
            self.notices.tick()
            self.agreed.tick()
        if now >= self._next_expiry:
            self._next_expiry = now + self.context.options.scan_not_active_broker_interval
            for live in self.context.live.expire(now, self.context.leader_since or 0):
                log.info(
                    "broker %(broker_id)d of group %(group)s is silent: dropped",
                    {"broker_id": live.id, "group": live.key},
                )

    # Events of Raft ---------------------------------------------------------------------------

    def applied(self, ticket: int, outcome: CommandOutcome, now: int) -> None:
        """Note that a command of this controller was applied."""
        self.context.now = now
        self.context.written(ticket, outcome)

    def dropped(self, ticket: int, now: int) -> None:
        """Note that a command of this controller was refused, or its result is unknown."""
        self.context.now = now
        self.context.written(ticket, None)

    def became_leader(self, term: int, now: int) -> None:
        """Start elections: this controller leads and has applied all earlier commands.

        No broker counts as dead by silence before a whole lease and a whole timeout have passed
        from now on.
        """
        self.context.now = self.context.leader_since = now
        self.context.term = term
        self.agreed.propose_missing()
        self.elections.start()

    def lost_leadership(self, now: int) -> None:
        """Stop elections, and refuse all waiting requests."""
        self.context.now = now
        self.context.leader_since = None
        self.context.fail_writes()
        self.elections.stop()
        self.notices.clear()
        for call in list(self._calls.values()):
            self._throw(call, self.not_leader())

    def read_ready(self, ticket: int, now: int) -> None:
        """Note that a `ReadBarrier` succeeded."""
        self.context.now = now
        call = self._barriers.pop(ticket, None)
        if call is not None:
            self._resume(call, None)

    def read_failed(self, ticket: int, now: int) -> None:
        """Note that a `ReadBarrier` failed, because this controller does not lead."""
        self.context.now = now
        call = self._barriers.pop(ticket, None)
        if call is not None:
            self._throw(call, self.not_leader())

    # Effects ----------------------------------------------------------------------------------

    def pop_effects(self) -> list[Effect]:
        """Return the effects since the last call, in order."""
        effects, self.context.effects = self.context.effects, []
        return effects

    def next_deadline(self) -> int:
        """Return when `tick` must be called at the latest (monotonic ms)."""
        times = [self._next_expiry, self.liveness_probe.next_deadline(), self._first_deadline()]
        if self.context.leads:
            times += [self.elections.next_deadline(), self.notices.next_deadline()]
        return min(time for time in times if time is not None)

    def statistics(self) -> dict[str, int]:
        """Return the state as numbers."""
        return {
            "groups": len(self.context.machine.groups),
            "brokers": self.context.live.count,
            "headless": len(self.elections.headless),
            "calls": len(self._calls),
            "notices": self.notices.open_count,
        }

    def recorded(self, mark: tuple[Key, int]) -> None:
        """Note that the command about this replica was applied, or that its result is unknown."""
        self.recording.discard(mark)
        self._look(mark[0])

    def not_leader(self) -> Refused:
        """Return the refusal that names the leader, if it is known."""
        leader = self.context.leader_address
        where = f"; ask {leader}" if leader else ", and no leader is known now; try again"
        return Refused(ResponseCode.CONTROLLER_NOT_LEADER, f"this controller does not lead{where}")

    # Inside -----------------------------------------------------------------------------------

    def _look(self, key: Key) -> None:
        if self.context.leads:
            self.elections.soon(key)

    def _begin(self, call: ControllerCall) -> None:
        handler, leader_only = self._handlers.get(call.request.code, (None, False))
        if handler is None:
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            raise Refused(code, f" request type {call.request.code} not supported")
        if leader_only and not self.context.leads:
            raise self.not_leader()
        result = handler(self, call)
        if isinstance(result, Reply):
            self._answer(call, result)
        elif len(self._calls) >= limits.CONTROLLER_CALLS_MAX:
            raise Refused(ResponseCode.SYSTEM_BUSY, "too many requests are waiting; try again")
        else:
            call.steps = result
            self._calls[call.token] = call
            heapq.heappush(self._deadlines, (call.deadline_ms, call.token))
            self._resume(call, None)

    def _resume(self, call: ControllerCall, value: Any) -> None:
        self._run(call, lambda: call.steps.send(value))

    def _throw(self, call: ControllerCall, error: Refused) -> None:
        self._run(call, lambda: call.steps.throw(error))

    def _run(self, call: ControllerCall, step: Callable[[], Any]) -> None:
        """Run a handler until it waits for a result or is done."""
        if call.done:
            return
        call.turn += 1
        try:
            wanted = step()
            while isinstance(wanted, ConfirmLeadership) and self.sure_to_lead():
                wanted = call.steps.send(None)
            self._wait(call, wanted)
        except StopIteration as done:
            self._finish(call, done.value)
        except Exception as error:
            self._finish(call, _failure(error, call.request))

    def sure_to_lead(self) -> bool:
        """Whether no other controller can lead now, so that a read needs no round of heartbeats."""
        return self.context.leads and self.context.leader_until > self.context.now

    def _wait(self, call: ControllerCall, wanted: Any) -> None:
        turn = call.turn
        call.waits_for_election = isinstance(wanted, Election)
        if isinstance(wanted, Write):
            self.context.write(wanted.event, lambda outcome: self._written(call, turn, outcome))
        elif isinstance(wanted, ConfirmLeadership):
            ticket = self.context.ticket()
            self._barriers[ticket] = call
            self.context.effects.append(ReadBarrier(ticket))
        elif isinstance(wanted, Election):
            self._expect(call, wanted.until_ms)
            self.elections.wait(wanted.key, lambda: self._elected(call, turn))
        else:
            raise OurBug(f"a handler waits for {wanted!r}")

    def _expect(self, call: ControllerCall, deadline_ms: int) -> None:
        call.deadline_ms = deadline_ms
        heapq.heappush(self._deadlines, (deadline_ms, call.token))

    def _written(self, call: ControllerCall, turn: int, outcome: CommandOutcome | None) -> None:
        if call.turn != turn:
            return
        if outcome is None:
            self._throw(call, self.not_leader())
        else:
            self._resume(call, outcome)

    def _elected(self, call: ControllerCall, turn: int) -> None:
        if call.turn == turn and not call.done:
            self._expect(call, self.context.now + CALL_MS)
            self._resume(call, None)

    def _give_up(self, call: ControllerCall) -> None:
        """End a call that waited too long; one that waits for an election continues without it."""
        if call.waits_for_election:
            self._elected(call, call.turn)
        else:
            self.context.counts.timed_out(call.request.code)
            remark = "no answer in time; whether it will be done is not known, so ask for the state"
            self._throw(call, Refused(ResponseCode.SYSTEM_ERROR, remark))

    def _finish(self, call: ControllerCall, reply: Reply) -> None:
        call.done = True
        self._calls.pop(call.token, None)
        self._answer(call, reply)

    def _answer(self, call: ControllerCall, reply: Reply) -> None:
        took_ms = self.context.now - (call.deadline_ms - CALL_MS)
        self.context.counts.answered(call.request.code, reply.code, max(0, took_ms))
        self.context.effects.append(SendReply(call.token, call.request, reply))

    def _first_deadline(self) -> int | None:
        while self._deadlines and self._deadlines[0][1] not in self._calls:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None


def _failure(error: Exception, request: Command) -> Reply:
    """Return the answer to a request whose handler failed. `OurBug` is raised and stops
    the node.
    """
    if isinstance(error, Refused):
        return Reply(error.code, error.remark)
    if isinstance(error, HeaderError | UsageError):
        return Reply(ResponseCode.SYSTEM_ERROR, str(error))
    if isinstance(error, OurBug):
        raise error
    log.error("handling of %(request)r failed", {"request": request}, exc_info=error)
    return Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
