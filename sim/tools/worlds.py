"""The worlds by name; each module is imported when it is first used."""

from collections.abc import Callable
from importlib import import_module

from sim.kernel.plan import Outcome, Plan
from sim.kernel.run import History, play

MODULES = {
    "store": "sim.store.store_world",
    "raft": "sim.raft.raft_world",
    "controller": "sim.controller.controller_world",
    "group": "sim.group.group_world",
    "secondary": "sim.secondary.secondary_world",
    "popping": "sim.popping.popping_world",
    "locks": "sim.locks.locks_world",
    "acting": "sim.acting.acting_world",
    "hard": "sim.hard.hard_world",
}


def maker(plan: Plan) -> Callable[[Plan], History]:
    """Return the function `history(plan)` of the plan's world or scenario."""
    if plan.scenario:
        from sim.scenarios.index import history_of

        return history_of
    found: Callable[[Plan], History] = import_module(MODULES[plan.world]).history
    return found


def run(plan: Plan) -> Outcome:
    """Play one plan."""
    return play(plan, maker(plan))
