"""Writes the messages that a broker creates itself: retries, dead letters, delayed deliveries.

Such a message exists because of an earlier one. All of them go through `InternalWriter.put`, so
that one place decides where they are written, and one answer lets the caller's progress move:

- The caller keeps its own progress (the offset of a delay level, the answer to a send-back) and
  moves it only in `done`. A crash or a refusal before that repeats the message and never loses it
  (rocketmq#9249, #7577, #7927).
- `done` is called exactly once for each put, with one outcome for each draft in order, at once or
  in a later turn of the event loop. Callers must work with both.
- `internal_writer.py` waits for messages that were appended and that replicas do not hold in time
  (`PATIENT`): a second put would deliver them twice. Where a second copy does no harm
  (`ANSWERED_IN_TIME`) the outcome is LATER.

`Route` decides where a draft is written: `role_route.py` writes to the broker's own log while the
broker may write, and else forwards to a living master by SEND_MESSAGE_V2 (`escape/`). `Origin`
tells the route which rule applies: a retry may go to any queue of its topic; a check point or an
acknowledgement of POP must always go to the same queue.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from epochmq.base.limits import PATIENT_REQUESTS_MAX
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.native_send import SendRun
from epochmq.store.remake import Remade

# Pending writes ------------------------------------------------------------------------------
# A message that is in the log, but not on enough replicas in time, is waited for and not written
# again.
#
# If replicas are slow, the message is in the log of the master all the same. Later it is
# replicated, or the role of this broker ends; then the next master uses its own log and its own
# progress. A second write meanwhile would deliver the message twice without any role change
# (INV-27).
#
# Pure: `now` is monotonic ms, results go to callbacks; `kept` asks the log and may answer at once.


ASK_AGAIN_MS = 200
"""Pause (ms) before the log is asked again; one answer of the log may itself take long."""

Held = Callable[[bool], None]
Kept = Callable[[int, Held], None]
"""Calls back with True when the log up to an offset is stored as safely as the options require, or
with False if that takes too long."""


class PendingWrites:
    """Callbacks that wait for log offsets of one broker; each is called once.

    The callers limit the number: each delay level and the timer have one batch in flight, each
    transaction one write; for messages that clients send back the limit is `PATIENT_REQUESTS_MAX`.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._time = 0
        """Counts role changes."""
        self._late: list[tuple[int, Held]] = []
        """Log offsets and callbacks that were not stored safely at the last request."""
        self._over: list[Held] = []
        """Callbacks whose role has ended; the next tick calls them with False."""
        self._ask_at = 0
        self._stopped = False

    def __len__(self) -> int:
        """Number of callbacks that wait for the next tick."""
        return len(self._late) + len(self._over)

    def wait(self, end: int, held: Held) -> None:
        """Call `held` with True when the log up to `end` (log offset) is stored safely.

        Calls it with False if the role changes before: the log may then have other bytes there.
        """
        time = self._time

        def answered(ok: bool) -> None:
            if self._stopped:
                held(False)
            elif time != self._time:
                self._over.append(held)
            elif ok:
                held(True)
            else:
                self._late.append((end, held))

        self._kept(end, answered)

    def role_changed(self) -> None:
        """End all waits, because the appended records may be cut in the new role.

        The callbacks are called at the next tick, when the callers know the new role themselves.
        """
        self._time += 1
        self._over += [held for _, held in self._late]
        self._late.clear()

    def stop(self) -> None:
        """Call all waiting callbacks with False now, because no further tick follows."""
        self._stopped = True
        self.role_changed()
        over, self._over = self._over, []
        for held in over:
            held(False)

    def tick(self, now: int) -> None:
        """Ask the log again if it is time; call it after the ticks of the callers."""
        over, self._over = self._over, []
        for held in over:
            held(False)
        if not self._late or now < self._ask_at:
            return
        self._ask_at = now + ASK_AGAIN_MS
        late, self._late = self._late, []
        for end, held in late:
            self.wait(end, held)

    def next_deadline(self) -> int | None:
        """Return the monotonic time (ms) of the next tick that has work; None without work."""
        if self._over:
            return 0
        return self._ask_at if self._late else None


# Internal writer -----------------------------------------------------------------------------


class Origin(Enum):
    """Which feature writes an internal message, and why."""

    RETRY = auto()
    DEAD_LETTER = auto()
    DELAYED = auto()
    REPLY = auto()
    TRANSACTION = auto()
    """The message of a commit, an op message, a copy of a half message (`broker/transaction`)."""
    TIMER = auto()
    POP = auto()
    """Check points and acknowledgements; a consumer waits for the answer."""
    REVIVE = auto()
    """Background writes of POP: messages whose invisible time is over, check points of the POP
    buffer, and copies of check points."""
    RECALL = auto()
    """Cancels a timed message, as a client requested with its recall handle."""


class WriteOutcome(Enum):
    """The result of writing one draft."""

    STORED = auto()
    """The message is stored as safely as the flush policy requires."""

    LATER = auto()
    """The message is not stored, for a temporary reason (disk full, no master): put it again."""

    ILLEGAL = auto()
    """The message can never be stored in this form."""


PATIENT = frozenset(
    {
        Origin.RETRY,
        Origin.DEAD_LETTER,
        Origin.DELAYED,
        Origin.TRANSACTION,
        Origin.TIMER,
        Origin.REVIVE,
    }
)
"""Their outcome is reported only when the message is stored safely or the role has changed."""
FOR_CLIENTS = frozenset({Origin.RETRY, Origin.DEAD_LETTER})
"""A client waits for the outcome, and many of these writes may be in flight."""
ANSWERED_IN_TIME = {
    Origin.REPLY: "the copy is a record for operators; nobody puts it again",
    Origin.POP: "a check point or an acknowledgement that is there twice counts once",
    Origin.RECALL: "a cancellation that is there twice takes back the same message",
}
"""Their outcome is LATER if the appended message is not stored safely within `slaveTimeout`. The
text says why a second copy does no harm."""

Done = Callable[[Sequence[WriteOutcome]], None]


class Route(Protocol):
    """Writes internal messages to one destination."""

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None: ...


class OwnStore(Protocol):
    """The part of the store that `OwnLogRoute` uses."""

    def append(self, drafts: Sequence[Draft], wall: int) -> list[Appended | PutStatus]: ...

    def append_run(self, run: SendRun, wall: int) -> int: ...

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None: ...


ILLEGAL = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})


def _always() -> bool:
    return True


class OwnLogRoute:
    """Writes internal messages to the broker's own log.

    With synchronous flush a draft is STORED when it is synced, with replicas when they have it.
    Otherwise the progress of a delayed message could be saved before the message itself, and a
    power cut or a failover would lose the message. `kept` decides when a log offset is safe.
    `writable` returns whether this broker may write at all (INV-32). The owner must call the tick
    and `role_changed` of `pending_writes`.
    """

    def __init__(
        self,
        store: OwnStore,
        *,
        sync_flush: bool,
        kept: Kept | None = None,
        writable: Callable[[], bool] = _always,
    ) -> None:
        self._store = store
        self._kept = kept or (store.when_synced if sync_flush else _at_once)
        self._writable = writable
        self.pending_writes = PendingWrites(self._kept)

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        if not self._writable():
            done([WriteOutcome.LATER] * len(drafts))
            return
        outcomes, end = self._append(drafts, wall)
        if not end:
            done(outcomes)
            return

        def kept(ok: bool) -> None:
            done(outcomes if ok else [WriteOutcome.LATER] * len(outcomes))

        is_patient = origin in PATIENT
        if origin in FOR_CLIENTS and len(self.pending_writes) >= PATIENT_REQUESTS_MAX:
            is_patient = False
        wait = self.pending_writes.wait if is_patient else self._kept
        wait(end, kept)

    def _append(self, drafts: Sequence[Draft], wall: int) -> tuple[list[WriteOutcome], int]:
        """Append the drafts; return their outcomes and the log offset of the end, 0 for none."""
        if isinstance(drafts, Remade):
            end = self._store.append_run(drafts.run, wall)
            if end:
                return [WriteOutcome.STORED] * len(drafts), end
            drafts = drafts.drafts()
        results = self._store.append(drafts, wall)
        end = max((r.offset + r.size for r in results if isinstance(r, Appended)), default=0)
        return [_outcome(result) for result in results], end


def _at_once(end: int, done: Callable[[bool], None]) -> None:
    """Report True at once: with asynchronous flush and no replicas, written means stored."""
    done(True)


def _outcome(result: Appended | PutStatus) -> WriteOutcome:
    if isinstance(result, Appended):
        return WriteOutcome.STORED
    return WriteOutcome.ILLEGAL if result in ILLEGAL else WriteOutcome.LATER


class InternalWriter:
    """Passes internal messages to the route of the broker, and counts the outcomes."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self._waiting = 0
        self._stored = dict.fromkeys(Origin, 0)
        self._refused = dict.fromkeys(Origin, 0)

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        """Write `drafts` in order; `done` gets their outcomes, possibly before this returns.

        `wall` is the present time (wall ms).
        """
        self._waiting += len(drafts)

        def settled(outcomes: Sequence[WriteOutcome]) -> None:
            self._waiting -= len(drafts)
            stored = sum(outcome is WriteOutcome.STORED for outcome in outcomes)
            self._stored[origin] += stored
            self._refused[origin] += len(outcomes) - stored
            done(outcomes)

        self.route.put(drafts, origin, wall, settled)

    def statistics(self) -> dict[str, int]:
        counts = {f"stored_{o.name.lower()}": n for o, n in self._stored.items()}
        counts.update({f"refused_{o.name.lower()}": n for o, n in self._refused.items()})
        return {"waiting": self._waiting, **counts}
