"""Pre-online: how a returning broker goes back into its group (RIP-32, ADR 0050).

A master learns the members and then, for each member in ascending id, compares the logs, announces
its replication address, waits until the member copies from it, and copies the member's tables. Only
when all of this worked does it ask the members to step down, and copies their tables once more:
after the step-down a member makes no further progress (H4, H5). Then it goes online. A slave asks
its master for the replication address, compares the logs, and is online when it copies log and
tables. A slave without a master copies the tables of the other slaves: one of them may be acting
master, and the slave with the smallest id replaces it.

A master that a slave copies from is not alone, even if name servers list no other member: the slave
is about to register. The master waits up to `register_ms` for that, and then copies the slave's
tables. Answers to older polls do not prove that a master is alone either, because a slave may have
registered since: the name servers are polled once more, and only those answers count.

Every attempt starts with the group's current members (H26), every failure is followed by a pause
(H25), and `state` always names what is awaited. A step without a result counts as failed.

This module does no I/O: `tick` gets the time and the name servers' verdict, and returns one call at
a time; the service reports its result by `done`, `not_yet`, `failed` or `diverged`. Times are
monotonic ms.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from epochmq.base.backoff import backoff_ms
from epochmq.broker.group.name_servers_view import NameServersVerdict

RETRY_MS = 500
"""The first pause after a failure (ms); it doubles up to `RETRY_MAX_MS`."""
RETRY_MAX_MS = 8_000
DIVERGED_MS = 15_000
"""The pause between two comparisons of logs that do not fit (ms); an operator has to act."""
LOOK_MS = 100
"""The pause between two checks of a link that does not exist yet, or of an unknown verdict (ms)."""
ANSWER_LOOK_MS = 20
"""The same for the question whether a master is alone (ms); such answers expire quickly."""
WAIT_MAX_MS = 10_000
"""A member without progress for this long (ms) is started again, as in RocketMQ (3.3)."""
CALL_MS = 12_000
"""The service has ended every call by then (ms); a call that is still open was lost."""


class Step(Enum):
    """A step with one member; the value is the text that operators read."""

    COMPARE = "comparing logs with"
    PREPARE = "announcing the return to"
    LINK = "waiting for the replication link of"
    PULL = "taking the tables of"
    HAND_OVER = "waiting for the step-down of"
    PULL_AGAIN = "taking the last changes of"
    ASK = "asking for the replication address"
    FOLLOW = "copying log and tables of"


PREPARING = (Step.COMPARE, Step.PREPARE, Step.LINK, Step.PULL)
HANDING_OVER = (Step.HAND_OVER, Step.PULL_AGAIN)
FOLLOWING = (Step.ASK, Step.COMPARE, Step.FOLLOW)
LEFT_ALONE = (Step.PULL,)
"""The step with each other slave of a group that has no master."""


class PreOnlineCall(NamedTuple):
    """Carry out `step` with the member at `address`."""

    step: Step
    member: int
    address: str
    attempt: int


class GoOnline(NamedTuple):
    """Take the role, register and serve; `why` is logged."""

    why: str


class AskAgain(NamedTuple):
    """Poll the name servers now."""


Effects = list[PreOnlineCall | GoOnline | AskAgain]


class PreOnline:
    """Decides one broker's return; `own_id` 0 is the group's master.

    `hold_ms`: for how long members that stepped down do not act again. Their tables are final only
    for that time, so the attempt must end within it or start again. `register_ms`: a living member
    that reaches the name servers registers within this time.
    """

    def __init__(self, own_id: int, hold_ms: int, register_ms: int) -> None:
        self.own_id = own_id
        self.hold_ms = hold_ms
        self.register_ms = register_ms
        self.online = False
        self.trouble = ""
        """Why the last attempt ended; empty while nothing is wrong."""
        self.is_diverged = False
        self.attempts = 0
        self._failures = 0
        self._due_ms = 0
        self._look_ms = 0
        """When to check the verdict again while there is no attempt (ms)."""
        self._unlisted_ms: int | None = None
        """Since when a slave copies from here while name servers list no other member (ms)."""
        self._alone_ms: int | None = None
        """Since when the verdict is ALONE, by answers that may be old (ms)."""
        self._plan: deque[PreOnlineCall] | None = None
        self._members: dict[int, str] = {}
        self._calling: PreOnlineCall | None = None
        self._called_ms = 0
        self._handed_ms: int | None = None
        """When the first member was asked to step down in this attempt (ms)."""
        self._near: int | None = None
        self._nearer_ms = 0
        self._detail = ""

    # What happens ----------------------------------------------------------------------------

    def tick(
        self,
        now: int,
        verdict: NameServersVerdict,
        others: Mapping[int, str],
        *,
        is_copied: bool = False,
        asked_ms: int | None = None,
    ) -> Effects:
        """Return at most one call, and none while a call is open. `is_copied`: a slave copies this
        broker's log. `asked_ms`: when the answers behind `verdict` were requested; None means now.
        """
        if self.online:
            return []
        if self._plan is not None and self._has_changed(others):
            self._give_up("the group changed meanwhile", now)
        if self._handed_ms is not None and now - self._handed_ms >= self.hold_ms:
            self._give_up("the hand-over took too long", now)
        if self._calling is not None and now - self._called_ms >= CALL_MS:
            self._fail(self._calling, "nothing came of it", now)
        if self._calling is not None or now < self._due_ms:
            return []
        if self._plan is None:
            asked_ms = now if asked_ms is None else asked_ms
            return self._begin(now, verdict, others, is_copied, asked_ms)
        return self._next(now)

    def done(self, call: PreOnlineCall, now: int) -> None:
        """Note that the step succeeded."""
        if call != self._calling or self._plan is None:
            return
        self._calling = None
        self._plan.popleft()
        self._forget_progress(now)

    def not_yet(self, call: PreOnlineCall, left: int | None, detail: str, now: int) -> None:
        """Check the step again later; `left` is how much is still missing, None when that is
        unknown."""
        if call != self._calling:
            return
        self._calling, self._detail = None, detail
        if left is not None and (self._near is None or left < self._near):
            self._near, self._nearer_ms = left, now
        if now - self._nearer_ms >= WAIT_MAX_MS:
            self._fail(call, f"no progress in {WAIT_MAX_MS} ms: {detail}", now)
        else:
            self._due_ms = now + LOOK_MS

    def failed(self, call: PreOnlineCall, problem: str, now: int) -> None:
        """Note that the step failed: start again after a pause."""
        if call == self._calling:
            self._fail(call, problem, now)

    def diverged(self, call: PreOnlineCall, text: str, now: int) -> None:
        """Note that the logs contradict each other: nothing goes on until an operator has acted."""
        if call != self._calling:
            return
        self._give_up(text, now)
        self.is_diverged = True
        self._due_ms = now + DIVERGED_MS

    # Inside ----------------------------------------------------------------------------------

    def _begin(
        self,
        now: int,
        verdict: NameServersVerdict,
        others: Mapping[int, str],
        is_copied: bool,
        asked_ms: int,
    ) -> Effects:
        if self._may_be_listed_soon(now, verdict, is_copied):
            self._look_ms = now + LOOK_MS
            self._alone_ms = None
            return []
        if verdict is NameServersVerdict.ALONE:
            return self._be_alone(now, asked_ms)
        self._alone_ms = None
        if verdict is NameServersVerdict.UNKNOWN or not others:
            self._look_ms = now + LOOK_MS
            return []
        self.attempts += 1
        copies = self.own_id > 0 and 0 in others
        self._members = {0: others[0]} if copies else dict(others)
        self._plan = deque(self._calls())
        self._forget_progress(now)
        return self._next(now)

    def _may_be_listed_soon(self, now: int, verdict: NameServersVerdict, is_copied: bool) -> bool:
        """Return whether a slave copies from here that has not registered yet, but still may."""
        if verdict is not NameServersVerdict.ALONE or not is_copied:
            self._unlisted_ms = None
            return False
        if self._unlisted_ms is None:
            self._unlisted_ms = now
        return now - self._unlisted_ms < self.register_ms

    def _be_alone(self, now: int, asked_ms: int) -> Effects:
        """Go online alone; a master first waits for answers to a new poll, because a slave may have
        registered since."""
        is_news = self._alone_ms is None
        if self._alone_ms is None:
            self._alone_ms = now
        if self.own_id == 0 and asked_ms < self._alone_ms:
            self._look_ms = now + ANSWER_LOOK_MS
            return [AskAgain()] if is_news else []
        return self._go_online("the name servers know of no other member")

    def _calls(self) -> list[PreOnlineCall]:
        phases: tuple[tuple[Step, ...], ...] = (PREPARING, HANDING_OVER)
        if self.own_id:
            phases = (FOLLOWING,) if 0 in self._members else (LEFT_ALONE,)
        return [
            PreOnlineCall(step, member, address, self.attempts)
            for phase in phases
            for member, address in sorted(self._members.items())
            for step in phase
        ]

    def _next(self, now: int) -> Effects:
        if not self._plan:
            members = ", ".join(map(str, sorted(self._members)))
            return self._go_online(f"everything was taken over from member {members}")
        self._calling, self._called_ms = self._plan[0], now
        if self._calling.step is Step.HAND_OVER and self._handed_ms is None:
            self._handed_ms = now
        return [self._calling]

    def _go_online(self, why: str) -> Effects:
        self.online, self._plan, self._handed_ms = True, None, None
        self.trouble, self.is_diverged = "", False
        return [GoOnline(why)]

    def _has_changed(self, others: Mapping[int, str]) -> bool:
        """Return whether a member appeared, or moved (H28); a lost member's calls just fail.

        A slave considers only its master.
        """
        seen = {n: at for n, at in others.items() if self.own_id == 0 or n == 0}
        return any(self._members.get(number) != address for number, address in seen.items())

    def _fail(self, call: PreOnlineCall, problem: str, now: int) -> None:
        self._give_up(f"{call.step.value} {call.member}@{call.address}: {problem}", now)

    def _give_up(self, why: str, now: int) -> None:
        self._plan = self._calling = self._handed_ms = None
        self.trouble, self.is_diverged = why, False
        self._due_ms = now + backoff_ms(self._failures, RETRY_MS, RETRY_MAX_MS)
        self._failures += 1

    def _forget_progress(self, now: int) -> None:
        self._near, self._nearer_ms, self._detail = None, now, ""

    # What is known ---------------------------------------------------------------------------

    @property
    def waits_for(self) -> str:
        """What is awaited, without numbers, so that it is logged once."""
        return self._plan[0].step.value if self._plan else self._between

    @property
    def _between(self) -> str:
        if self._unlisted_ms is not None:
            return "waiting for a slave that copies from here to register at the name servers"
        if self.attempts:
            return "pausing before another attempt"
        return "waiting for the name servers to tell who is in the group"

    @property
    def state(self) -> str:
        """One line for operators: what is awaited, and what failed before."""
        if self.online:
            return "ONLINE"
        if self.is_diverged:
            return f"DIVERGED {self.trouble}"
        if self._plan:
            step, member, address, _ = self._plan[0]
            text = f"{step.value} {member}@{address}"
            text += f": {self._detail}" if self._detail else ""
        else:
            text = self._between
        return f"{text} (attempt {self.attempts}; {self.trouble})" if self.trouble else text

    def next_deadline(self) -> int | None:
        """Return when `tick` has something to do even if nothing happens (ms); None when online."""
        if self.online:
            return None
        due = self._due_ms if self._calling is None else self._called_ms + CALL_MS
        if self._plan is None:
            due = max(due, self._look_ms)
        return due if self._handed_ms is None else min(due, self._handed_ms + self.hold_ms)

    def statistics(self) -> dict[str, int]:
        return {
            "attempts": self.attempts,
            "failures": self._failures,
            "steps_left": len(self._plan or ()),
        }
