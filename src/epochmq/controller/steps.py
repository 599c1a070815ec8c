"""How a handler waits without being a coroutine: as a generator that yields what it waits for.

    def handle(core, call):
        outcome = yield Write(event)
        return Reply(...)

The core resumes the generator with the result, or throws `Refused` into it. The same code runs in
the service and in the simulator.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from epochmq.controller.commands import AnyEvent
from epochmq.controller.controller_state import Key
from epochmq.wire.command import Command, Reply


@dataclass(frozen=True, slots=True)
class Write:
    """Wait until the event is committed and applied; the result is its `CommandOutcome`."""

    event: AnyEvent


@dataclass(frozen=True, slots=True)
class ConfirmLeadership:
    """Wait until it is certain that this controller led at the time of the request."""


@dataclass(frozen=True, slots=True)
class Election:
    """Wait until the next election of this group ends, or until `until_ms` (monotonic)."""

    key: Key
    until_ms: int


Step = Write | ConfirmLeadership | Election
Steps = Generator[Step, Any, Reply]


class ControllerCall:
    """One request in the core. `session_id` is its connection."""

    __slots__ = (
        "deadline_ms",
        "done",
        "request",
        "session_id",
        "steps",
        "token",
        "turn",
        "waits_for_election",
    )

    def __init__(self, token: int, request: Command, session_id: int, deadline_ms: int) -> None:
        self.token = token
        self.request = request
        self.session_id = session_id
        self.deadline_ms = deadline_ms
        self.steps: Steps
        self.done = False
        self.turn = 0
        """Rises with each step, so that a result for an earlier step is recognised."""
        self.waits_for_election = False
