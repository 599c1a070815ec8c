"""A plan describes one history: its world, its seed, its faults, and disabled safeguards."""

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from epochmq.base.safeguards import SAFE, Safeguards

if TYPE_CHECKING:
    from sim.kernel.violation import Violation

SWITCHES = tuple(field.name for field in fields(Safeguards))


@dataclass(frozen=True)
class Plan:
    """Everything that determines a history; the same plan gives the same hash (INV-90)."""

    world: str
    seed: int
    off: tuple[str, ...] = ()
    """Disabled safeguards: of `base/safeguards.py`, or mutants of `sim/kernel/mutants.py`."""
    keep: tuple[int, ...] | None = None
    """Numbers of the faults that are carried out; None for all that the seed gives."""
    scenario: str = ""
    """A scenario to play in place of random faults."""

    @property
    def safeguards(self) -> Safeguards:
        off = [name for name in self.off if name in SWITCHES]
        return replace(SAFE, **dict.fromkeys(off, False)) if off else SAFE

    def command(self) -> str:
        """Return the command that replays this history."""
        words = ["python -m sim replay --world", self.world]
        if self.scenario:
            words = ["python -m sim replay --scenario", self.scenario]
        words += ["--seed", str(self.seed)]
        for name in self.off:
            words += ["--off", name]
        if self.keep is not None:
            words += ["--keep", ",".join(map(str, self.keep)) or "none"]
        return " ".join(words)


@dataclass
class Outcome:
    """The result of a history."""

    plan: Plan
    digest: str
    events: int
    simulated_ms: int
    marks: dict[str, int]
    faults: list[str] = field(default_factory=list)
    """The schedule, one line per fault."""
    violation: "Violation | None" = None
    last: list[str] = field(default_factory=list)
    """The last events."""
    states: list[str] = field(default_factory=list)
    """The state of each host, one line per host."""
    traceback: str = ""
    """The traceback of an error that no checker raised."""
