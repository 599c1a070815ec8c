"""Plays one plan in its world and returns the outcome."""

import gc
import traceback
from collections.abc import Callable
from typing import Protocol

from epochmq.base.errors import OurBug
from sim.kernel.plan import Outcome, Plan
from sim.kernel.tripwires import armed
from sim.kernel.violation import Violation
from sim.kernel.world import World


class History(Protocol):
    """One history of a world, ready to be played."""

    world: World

    def play(self) -> None:
        """Run to the end; raises `Violation`."""
        ...

    def schedule(self) -> list[str]:
        """Return the faults that are carried out, one line each."""
        ...


def play(plan: Plan, make: Callable[[Plan], History]) -> Outcome:
    """Play the plan; any exception inside becomes the violation of the outcome."""
    violation, trace = None, ""
    history = None
    collecting = gc.isenabled()
    gc.collect(1)  # frees the previous history's world: it is young and has reference cycles
    gc.disable()
    try:
        with armed():
            history = make(plan)
            history.play()
    except Violation as found:
        violation = found
    except OurBug as found:
        violation = Violation(_rule_of(str(found)), f"a check of the product rang: {found}")
        trace = traceback.format_exc()
    except (Exception, RecursionError) as found:
        violation = Violation("CRASH", f"{type(found).__name__}: {found}")
        trace = traceback.format_exc()
    finally:
        if collecting:
            gc.enable()
    if history is None:
        return Outcome(plan, "", 0, 0, {}, [], violation, [], [], trace)
    world = history.world
    outcome = Outcome(
        plan,
        world.trace.digest(),
        world.trace.count,
        world.time_us // 1000,
        dict(sorted(world.marks.items())),
        history.schedule(),
        violation,
    )
    if violation is not None:
        outcome.last, outcome.states = world.trace.last(), _states(world)
        outcome.traceback = trace
    return outcome


def _states(world: World) -> list[str]:
    try:
        return world.states()
    except Exception as error:
        return [f"(no state: {error})"]


def _rule_of(text: str) -> str:
    word = text.split(" ", 1)[0].rstrip(":")
    return word if word.startswith("INV-") else "CHECK"
