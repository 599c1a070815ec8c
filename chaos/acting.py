"""`python -m chaos acting`: a master without controllers is killed under load and comes back.

The same run on RocketMQ's brokers (`--peer java`), same settings, same clients; with RocketMQ's
clients in order, by POP and in transactions (`--clients java`); with the acting master and
a living master in one process (`--container`); and with the death of the master that is handed
over to, in the middle of it (`--target`).
"""

import argparse
import asyncio
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.compat.peers.contained import Contained
from tests.compat.peers.group import JAVA, OURS
from tests.compat.peers.pairs import Pairs

from chaos.acting_java import JavaRun
from chaos.acting_run import ALSO, DELAY_MS, DELAYED, DIES, QUICK, STAYS, TIMED, Plan, Run
from chaos.figures import percentile

TARGET_DEAD_S = 15.0


def report(run: Run, title: str) -> str:
    """The run on one page."""
    plan = run.plan
    lines = [f"{title}: master killed after {plan.before_s:.0f} s, back {plan.dead_s:.0f} s later"]
    for name, kind in run.kinds.items():
        pause = kind.pause(run.killed_ms, run.back_ms) / 1_000
        lines.append(
            f"  {name:<8} acknowledged {len(kind.sent):>5}, lost {len(kind.lost):>4}, delivered"
            f" again {kind.repeated:>4}, first after the kill {pause:6.2f} s, all of before it"
            f" {kind.backlog_s(run.killed_ms):6.2f} s"
        )
    for name in (DELAYED, TIMED):
        late = run.kinds[name].late(DELAY_MS)
        if late:
            lines.append(
                f"  {name.lower()} ones late by p50 {percentile(late, 50):.0f} ms,"
                f" p99 {percentile(late, 99):.0f} ms, at most {late[-1]:.0f} ms"
            )
    lines.append(f"  out of order {run.disorder}, committed offsets gone back {len(run.went_back)}")
    return "\n".join(lines + [f"    {each}" for each in run.went_back[:5]])


def is_bad(run: Run) -> bool:
    """Whether something was lost, came out of order, or an offset went back."""
    return bool(run.disorder or run.went_back or any(kind.lost for kind in run.kinds.values()))


@contextlib.contextmanager
def started(*, peer: str, container: bool, target: bool) -> Iterator[Pairs]:
    """The groups of one run."""
    if container:
        config = {**QUICK, "enableRemoteEscape": False}
        with (
            tempfile.TemporaryDirectory(prefix="acting-") as root,
            Contained(Path(root), config) as contained,
        ):
            yield contained.pairs
        return
    alone = {ALSO: OURS} if target else {}
    kind = JAVA if peer == "java" else OURS
    with Pairs(kind, names=(DIES, STAYS), alone=alone, broker_config=QUICK) as pairs:
        yield pairs


def main(argv: Sequence[str]) -> None:
    """One run; exit code 1 when something was lost, out of order or went back."""
    parser = argparse.ArgumentParser(prog="python -m chaos acting", description=__doc__)
    parser.add_argument("--peer", choices=("epochmq", "java"), default="epochmq")
    parser.add_argument("--clients", choices=("epochmq", "java"), default="epochmq")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--container", action="store_true")
    what.add_argument("--target", action="store_true")
    args = parser.parse_args(argv)
    plan = Plan(target_dead_s=TARGET_DEAD_S if args.target else 0.0)
    kind = JavaRun if args.clients == "java" else Run
    with started(peer=args.peer, container=args.container, target=args.target) as pairs:
        run = kind(pairs, plan)
        asyncio.run(run.run())
    print(report(run, " ".join(["acting", *argv])))
    raise SystemExit(1 if is_bad(run) and args.peer == "epochmq" else 0)
