"""The way of a returning broker back into its group (RIP-32, ADR 0050).

A master asks who is there and then, member by member in ascending id: compares the logs, tells
where the log is copied from, waits for the copying, takes the member's tables. Only when all of
that works does it let the members step down, and takes their tables once more: what they did until
then is all they ever do (H4, H5). Then it goes online. A slave asks its master for the address,
compares, and is online when it copies log and tables. A slave without a master takes the tables of
the other slaves: one may stand in, and whoever has the smallest id takes its place.

A master that a slave copies from is not alone, although name servers name nobody else: the slave is
about to register. For `register_ms` the master waits for that, and then takes the slave's tables.
Nor is it alone by answers of before: a slave may have registered since, and stand in soon. The name
servers are asked once more, and only what they say then counts.

Every attempt begins with the group as it is then (H26), every failure is followed by a pause (H25),
and `state` names at any time what is waited for. An answer that never comes counts as failed.

Pure: `tick` takes the time and what name servers say, and gives out one call at a time; the shell
reports each by `done`, `not_yet`, `failed` or `diverged`. Times are monotonic.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from epochmq.base.backoff import backoff_ms
from epochmq.broker.group.name_servers_view import NameServersVerdict

RETRY_MS = 500
"""First pause after a failure; doubles up to `RETRY_MAX_MS`."""
RETRY_MAX_MS = 8_000
DIVERGED_MS = 15_000
"""Between two looks at logs that do not fit: a person has to do something."""
LOOK_MS = 100
"""Between two looks at a link that is not there yet, or at name servers that do not know yet."""
ANSWER_LOOK_MS = 20
"""The same for answers of name servers that say whether a master is alone: they get old."""
WAIT_MAX_MS = 10_000
"""A member that does not come nearer for so long is begun with anew, as upstream (3.3)."""
CALL_MS = 12_000
"""The shell has given up by then; a call still open is one that was forgotten."""


class Step(Enum):
    """What is done with a member; the value is what an operator reads."""

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
"""With each of the other slaves of a group that has no master."""


class PreOnlineCall(NamedTuple):
    """Do `step` with the member at `address`."""

    step: Step
    member: int
    address: str
    attempt: int


class GoOnline(NamedTuple):
    """Take the role, register, serve; `why` goes into the log."""

    why: str


class AskAgain(NamedTuple):
    """Ask the name servers now."""


Effects = list[PreOnlineCall | GoOnline | AskAgain]


class PreOnline:
    """One broker's way; `own_id` 0 is the group's master.

    `hold_ms`: how long members that stepped down are sure not to stand in again. What was taken
    from them is all there is only until then, so the way ends by then or begins anew.
    `register_ms`: a living member that reaches the name servers registers within this time.
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
        """Without an attempt: when to look again at what name servers say."""
        self._unlisted_ms: int | None = None
        """Since when a slave copies from here that no name server names, and nobody else is."""
        self._alone_ms: int | None = None
        """Since when nobody else is there, by answers that may be old."""
        self._plan: deque[PreOnlineCall] | None = None
        self._members: dict[int, str] = {}
        self._calling: PreOnlineCall | None = None
        self._called_ms = 0
        self._handed_ms: int | None = None
        """When the first member was asked to step down in this attempt."""
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
        """What to do now; at most one thing, and nothing while a call is open. `is_copied`: a slave
        copies the log of this broker. `asked_ms`: when the name servers were asked that say so, if
        not now."""
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
        """The step is over, and well."""
        if call != self._calling or self._plan is None:
            return
        self._calling = None
        self._plan.popleft()
        self._forget_progress(now)

    def not_yet(self, call: PreOnlineCall, left: int | None, detail: str, now: int) -> None:
        """Look again; `left` is how far it still is, None when even that is not known."""
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
        """Nothing came of the step: begin anew after a pause."""
        if call == self._calling:
            self._fail(call, problem, now)

    def diverged(self, call: PreOnlineCall, text: str, now: int) -> None:
        """Both logs cannot be right: nothing goes on until somebody did something about it."""
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
        """Whether a slave copies from here that has not registered yet, and still may."""
        if verdict is not NameServersVerdict.ALONE or not is_copied:
            self._unlisted_ms = None
            return False
        if self._unlisted_ms is None:
            self._unlisted_ms = now
        return now - self._unlisted_ms < self.register_ms

    def _be_alone(self, now: int, asked_ms: int) -> Effects:
        """Not as a master by answers to older questions: a slave may have registered since."""
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
        """Somebody came, or moved (H28); who is not listed any more fails by himself.

        To a slave that is only its master.
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
        """What is waited for without figures, so that who says it does so once."""
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
        """One line for operators: what is waited for, and what went wrong before."""
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
        """When `tick` has something to do even if nothing happens."""
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
