"""All stories by id; a story is a module `sNN_*` with a class `Story`."""

import pkgutil
from importlib import import_module

import sim.scenarios
from sim.kernel.plan import Plan
from sim.kernel.run import History


def names() -> dict[str, str]:
    """Id -> module, in order."""
    found = sorted(module.name for module in pkgutil.iter_modules(sim.scenarios.__path__))
    return {name.split("_")[0].upper(): name for name in found if name[0] == "s" and "_" in name}


def module_of(scenario: str) -> object:
    return import_module(f"sim.scenarios.{names()[scenario]}")


def history_of(plan: Plan) -> History:
    """The story's history for the plan's seed."""
    made: History = module_of(plan.scenario).Story(plan)  # type: ignore[attr-defined]
    return made


def listing() -> list[str]:
    """One line a story: id and the first line of its module's text."""
    return [
        f"{name}: {(module_of(name).__doc__ or '').strip().splitlines()[0]}" for name in names()
    ]
