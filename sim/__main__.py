"""`python -m sim`: run, replay, campaign, ablate, scenarios."""

import argparse
import sys
from dataclasses import replace

from sim.kernel.mutants import ACTING_MUTANTS, MUTANTS, REPLICATION_MUTANTS
from sim.kernel.plan import SWITCHES, Plan
from sim.tools.campaign import campaign, plans
from sim.tools.report import report
from sim.tools.seeds import history_seeds
from sim.tools.shrink import shrink
from sim.tools.worlds import MODULES, run

OFF = tuple(dict.fromkeys((*SWITCHES, *MUTANTS, *REPLICATION_MUTANTS, *ACTING_MUTANTS)))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",")) if text != "none" else ()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    verbs = made.add_subparsers(dest="verb", required=True)
    for name, text in (
        ("run", "play seeds one after the other, stop at the first violation"),
        ("replay", "play one history and tell all"),
        ("campaign", "play seeds on several processes for some time"),
        ("kept", "play the seeds that failed once, then COUNT from --seed on"),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--world", choices=sorted(MODULES), default="group")
        verb.add_argument("--scenario", default="")
        verb.add_argument("--seed", type=int, default=0, help="the first, or the only one")
        verb.add_argument("--off", action="append", default=[], choices=OFF)
        verb.add_argument("--keep", type=_numbers, default=None, help="faults to carry out")
        verb.add_argument("--count", type=int, default=None)
        verb.add_argument("--seconds", type=float, default=None)
        verb.add_argument("--jobs", type=int, default=1)
        verb.add_argument("--no-shrink", action="store_true")
    ablate = verbs.add_parser("ablate", help="switch safeguards off and look for violations")
    ablate.add_argument("--off", action="append", default=[], choices=OFF)
    ablate.add_argument("--count", type=int, default=300)
    verbs.add_parser("scenarios", help="list the stories")
    return made


def _replay(options: argparse.Namespace) -> int:
    off = tuple(options.off)
    plan = Plan(options.world, options.seed, off, options.keep, options.scenario)
    outcome = run(plan)
    if outcome.violation is None:
        print(f"{plan.command()}: nothing wrong")
        print(f"hash {outcome.digest[:16]}, {outcome.events} events, {outcome.marks}")
        print("\n".join(outcome.faults))
        return 0
    print(report(outcome))
    return 1


def _many(options: argparse.Namespace) -> int:
    off = tuple(options.off)
    count = options.count
    if options.verb == "kept":
        seeds = history_seeds(options.world, count or 0, options.seed)
        todo = iter([Plan(options.world, seed, off) for seed in seeds])
    else:
        if count is None and options.seconds is None:
            count = 100
        todo = plans(options.world, options.seed, count, off, options.scenario)
    stop = 1 if options.verb == "run" else 10
    summary = campaign(todo, options.jobs, options.seconds, stop)
    for failed in summary.failures:
        if options.no_shrink:
            print(f"{failed.violation}\n  {failed.plan.command()}")
            continue
        plain = replace(failed.plan, keep=None)
        print(report(shrink(run(plain), run)), end="\n\n")
    print(summary.line())
    if explained := summary.explained():
        print(explained)
    print("  ".join(f"{name} {number}" for name, number in sorted(summary.marks.items())))
    return 1 if summary.failures else 0


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.verb == "scenarios":
        from sim.scenarios.index import listing

        print("\n".join(listing()))
        return 0
    if options.verb == "ablate":
        from sim.tools.ablate import ablate

        return ablate(tuple(options.off) or None, options.count)
    return _replay(options) if options.verb == "replay" else _many(options)


if __name__ == "__main__":
    sys.exit(main())
