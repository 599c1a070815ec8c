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
# What is in the log and not held in time is waited for, and not written again.
#
# A master whose replicas are slow has a delivery in its log all the same. It comes to be held, or
# this master's time ends; then whoever is master next goes by its own log and its own progress. To
# write it again meanwhile delivered it twice without any change of role (INV-27).
#
# Pure: monotonic `now` comes in, callbacks go out; `kept` asks the log, and may answer at once.


ASK_AGAIN_MS = 200
"""Pause before it is asked again whether the log is held by now; an answer may take long itself."""

Held = Callable[[bool], None]
Kept = Callable[[int, Held], None]
"""Calls back with True once the log up to an offset is kept as safely as the options ask for, with
False when it is not in time."""


class PendingWrites:
    """Those who wait for ends of one broker's log; each is called once.

    Bounded by its callers: a level and the timer have one batch under way, a transaction one end;
    of what clients send back `PATIENT_REQUESTS_MAX`.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._time = 0
        """Counts roles."""
        self._late: list[tuple[int, Held]] = []
        """Not held when it was asked last."""
        self._over: list[Held] = []
        """The role in which they began to wait has ended."""
        self._ask_at = 0
        self._stopped = False

    def __len__(self) -> int:
        """Those who wait for the next tick."""
        return len(self._late) + len(self._over)

    def wait(self, end: int, held: Held) -> None:
        """Call `held` with True once the log up to `end` is held, with False when another role
        comes before that: another log may hold other bytes up to there."""
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
        """What was appended may be cut: nobody may wait for it any longer.

        They hear of it at the next tick, when those who put have seen the new role themselves.
        """
        self._time += 1
        self._over += [held for _, held in self._late]
        self._late.clear()

    def stop(self) -> None:
        """Nobody ticks it any more: who waits hears it now, a neighbour in the same process too."""
        self._stopped = True
        self.role_changed()
        over, self._over = self._over, []
        for held in over:
            held(False)

    def tick(self, now: int) -> None:
        """Ask again, if it is time; to be called after those who put were ticked."""
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
        """Monotonic time of the next tick that does something."""
        if self._over:
            return 0
        return self._ask_at if self._late else None


# Internal writer -----------------------------------------------------------------------------


class Origin(Enum):
    """Why a message is written again."""

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
    """What POP writes by itself: messages whose invisible time is over, check points out of memory,
    copies of them."""
    RECALL = auto()
    """Takes a timed message back: a client asked for it by its handle."""


class WriteOutcome(Enum):
    """What became of one draft."""

    STORED = auto()
    """Kept as safely as the flush policy asks for."""

    LATER = auto()
    """Not kept, for a reason that passes (disk full, no master): put it again."""

    ILLEGAL = auto()
    """Can never be kept as it is."""


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
"""They hear nothing before what was appended is held, or this broker's role has changed."""
FOR_CLIENTS = frozenset({Origin.RETRY, Origin.DEAD_LETTER})
"""A client waits for the answer as long as it likes, and of these many may be under way."""
ANSWERED_IN_TIME = {
    Origin.REPLY: "the copy is a record for operators; nobody puts it again",
    Origin.POP: "a check point or an acknowledgement that is there twice counts once",
    Origin.RECALL: "a cancellation that is there twice takes back the same message",
}
"""They hear LATER after `slaveTimeout` of what was appended, and why twice does no harm."""

Done = Callable[[Sequence[WriteOutcome]], None]


class Route(Protocol):
    """A way out for secondary messages."""

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None: ...


class OwnStore(Protocol):
    """What the local route needs of the store."""

    def append(self, drafts: Sequence[Draft], wall: int) -> list[Appended | PutStatus]: ...

    def append_run(self, run: SendRun, wall: int) -> int: ...

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None: ...


ILLEGAL = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})


def _always() -> bool:
    return True


class OwnLogRoute:
    """The route of a master: its own store.

    With synchronous flush a draft is STORED once it is synced, with replicas once they have it: a
    delivered delay message whose progress were saved before its own bytes would be lost by a power
    cut or a failover. `kept` says when; `writable` whether this broker is the master at all
    (INV-32). `pending_writes` must be ticked, and told of another role.
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
        """What became of each, and where the last record ends; 0: none was appended."""
        if isinstance(drafts, Remade):
            end = self._store.append_run(drafts.run, wall)
            if end:
                return [WriteOutcome.STORED] * len(drafts), end
            drafts = drafts.drafts()
        results = self._store.append(drafts, wall)
        end = max((r.offset + r.size for r in results if isinstance(r, Appended)), default=0)
        return [_outcome(result) for result in results], end


def _at_once(end: int, done: Callable[[bool], None]) -> None:
    """Asynchronous flush, no replicas: what is written is kept."""
    done(True)


def _outcome(result: Appended | PutStatus) -> WriteOutcome:
    if isinstance(result, Appended):
        return WriteOutcome.STORED
    return WriteOutcome.ILLEGAL if result in ILLEGAL else WriteOutcome.LATER


class InternalWriter:
    """Counts what goes out and hands it to the route that holds for the broker's role."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self._waiting = 0
        self._stored = dict.fromkeys(Origin, 0)
        self._refused = dict.fromkeys(Origin, 0)

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        """Write `drafts` in order; `done` gets their outcomes, possibly before this returns."""
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
