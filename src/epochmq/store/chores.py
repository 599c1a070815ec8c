"""Chores: blocking steps that may run outside the event loop, with a callback on the loop."""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass

from epochmq.base.errors import EnvironmentFault

Step = Callable[[], None]

Steps = Generator[Step, None, None]
"""Work on the loop that yields blocking steps. The caller runs each step, then resumes the
generator, or throws the step's error into it.
"""


def run_steps(steps: Steps) -> None:
    """Run all blocking steps now."""
    error: EnvironmentFault | None = None
    while True:
        try:
            step = next(steps) if error is None else steps.throw(error)
        except StopIteration:
            return
        error = None
        try:
            step()
        except EnvironmentFault as caught:
            error = caught


@dataclass
class Chore:
    """Short steps in order; `done` gets the first error, which also ends the chore, or None."""

    name: str
    steps: deque[Step]
    done: Callable[[EnvironmentFault | None], None]


class Chores:
    """A queue of chores. The caller runs one step at a time, so that syncs can run in between."""

    def __init__(self) -> None:
        self._waiting: deque[Chore] = deque()
        self.paused = False
        """Whether no step is returned, because the log is being cut."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, name: str, steps: list[Step], done: Callable[[EnvironmentFault | None], None]
    ) -> None:
        self._waiting.append(Chore(name, deque(steps), done))

    def busy(self, name: str) -> bool:
        """Whether a chore of this name is waiting or partly done."""
        return any(chore.name == name for chore in self._waiting)

    def next_step(self) -> Step | None:
        """Return the next blocking step, or None; finish chores without further steps."""
        while self._waiting and not self.paused:
            chore = self._waiting[0]
            if chore.steps:
                return chore.steps.popleft()
            self._waiting.popleft()
            chore.done(None)
        return None

    def failed(self, error: EnvironmentFault) -> None:
        """End the current chore with `error`, because its last step failed."""
        self._waiting.popleft().done(error)

    def run_all(self) -> None:
        """Run all chores now."""
        while (step := self.next_step()) is not None:
            try:
                step()
            except EnvironmentFault as error:
                self.failed(error)
