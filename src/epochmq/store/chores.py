"""Work that blocks: steps that may run beside the loop, and what to do on the loop afterwards."""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass

from epochmq.base.errors import EnvironmentFault

Step = Callable[[], None]

Steps = Generator[Step, None, None]
"""Work on the loop that gives out blocking steps. Whoever runs it goes on when the step is done, or
throws the step's error into it."""


def run_steps(steps: Steps) -> None:
    """Run the blocking steps here and now."""
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
    """Steps in order, each short; `done` is told the first error, which also ends the chore."""

    name: str
    steps: deque[Step]
    done: Callable[[EnvironmentFault | None], None]


class Chores:
    """A queue of chores. Whoever runs them takes one step at a time: other syncs go between."""

    def __init__(self) -> None:
        self._waiting: deque[Chore] = deque()
        self.paused = False
        """No step is given out: the log is being cut."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, name: str, steps: list[Step], done: Callable[[EnvironmentFault | None], None]
    ) -> None:
        self._waiting.append(Chore(name, deque(steps), done))

    def busy(self, name: str) -> bool:
        """Whether a chore of this name is waiting or half done."""
        return any(chore.name == name for chore in self._waiting)

    def next_step(self) -> Step | None:
        """The next blocking step; finishes chores that have none left."""
        while self._waiting and not self.paused:
            chore = self._waiting[0]
            if chore.steps:
                return chore.steps.popleft()
            self._waiting.popleft()
            chore.done(None)
        return None

    def failed(self, error: EnvironmentFault) -> None:
        """The step last taken failed."""
        self._waiting.popleft().done(error)

    def run_all(self) -> None:
        """Run everything here and now."""
        while (step := self.next_step()) is not None:
            try:
                step()
            except EnvironmentFault as error:
                self.failed(error)
