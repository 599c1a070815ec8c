"""What is in the log and not held in time is waited for, and not written again.

A master whose replicas are slow has a delivery in its log all the same. It comes to be held, or
this master's time ends; then whoever is master next goes by its own log and its own progress. To
write it again meanwhile delivered it twice without any change of role (INV-27).

Pure: monotonic `now` comes in, callbacks go out; `kept` asks the log, and may answer at once.
"""

from collections.abc import Callable

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
