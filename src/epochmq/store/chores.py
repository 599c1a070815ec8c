"""Work that blocks: steps that may run beside the loop, and what to do on the loop afterwards."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from epochmq.base.errors import EnvironmentFault

Step = Callable[[], None]


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
        while self._waiting:
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
