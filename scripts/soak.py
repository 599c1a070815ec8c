"""Everything that `make test` only samples, in stages: `make soak`.

    python scripts/soak.py             run the stages that have not passed at this commit
    python scripts/soak.py --list      name the stages, how long they take and what has passed
    python scripts/soak.py histories   run this stage, though it has passed

A stage that passed is noted in .soak/COMMIT, so that a run that was stopped goes on where it was.
Histories and properties use seeds that nobody played before; each stage prints its own. Times are
those of a machine with 2 cores.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".soak"
PYTEST = (sys.executable, "-m", "pytest", "-q")
PARALLEL = ("-n", "2", "--dist=loadfile", "--no-loadscope-reorder")
OTHER_STAGES = tuple(
    f"--ignore=tests/{folder}" for folder in ("compat", "sim", "chaos", "spark/jvm")
)
HALF_A_DAY_S = 43_200


@dataclass(frozen=True)
class Stage:
    """One command; `minutes` is about how long it takes."""

    name: str
    minutes: int
    what: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


STAGES = (
    Stage(
        "histories",
        90,
        "random histories of all worlds of the simulator",
        (*PYTEST, "tests/sim", *PARALLEL, f"--timeout={HALF_A_DAY_S}"),
    ),
    Stage(
        "properties",
        150,
        "properties with at least 2,000 new examples each",
        (*PYTEST, "tests", *OTHER_STAGES, *PARALLEL, f"--timeout={HALF_A_DAY_S}"),
        {"EPOCHMQ_PROPERTIES": "soak"},
    ),
    Stage(
        "compat",
        20,
        "every test with third-party clients and brokers",
        (*PYTEST, "tests/compat", *PARALLEL, "--timeout=600"),
    ),
    Stage("spark", 25, "every test of the pipeline on Spark", (*PYTEST, "tests/spark/jvm")),
    Stage(
        "chaos",
        60,
        "60 times each fault on real groups under load",
        (*PYTEST, "tests/chaos/test_failover.py", "--timeout=7200"),
        {"EPOCHMQ_CHAOS_COUNT": "60"},
    ),
    Stage(
        "members",
        6,
        "50 members on 256 queues join, leave and are killed for five minutes",
        (sys.executable, "-m", "chaos", "members", "--ordered"),
    ),
    Stage(
        "image",
        6,
        "the image, built by buildah and used",
        (*PYTEST, "tests/deployment/test_container_image.py", "--timeout=1800"),
    ),
    Stage(
        "lake",
        32,
        "topics as tables for 30 minutes, the service and masters are killed",
        (sys.executable, "-m", "chaos", "lake-kill", "--minutes", "30"),
    ),
)


NAMES = tuple(stage.name for stage in STAGES)


def stage_name(text: str) -> str:
    """Return `text`, the name of a stage. `choices` would refuse that no stage is named."""
    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a stage; use {', '.join(NAMES)}")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen stages; return 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = ", ".join(NAMES)
    parser.add_argument("stages", nargs="*", metavar="STAGE", type=stage_name, help=names)
    parser.add_argument("--list", action="store_true", help="name the stages and run nothing")
    options = parser.parse_args(arguments)
    note = FOLDER / commit()
    passed = note.read_text().split() if note.exists() else []
    for stage in STAGES:
        state = "passed" if stage.name in passed else ""
        print(f"{stage.name:12}{stage.minutes:4} minutes  {stage.what}  {state}", flush=True)
    if options.list:
        return 0
    chosen = [s for s in STAGES if s.name in options.stages] or [
        stage for stage in STAGES if stage.name not in passed
    ]
    print(f"about {sum(stage.minutes for stage in chosen)} minutes", flush=True)
    failed = [stage.name for stage in chosen if not run(stage, note)]
    print(f"failed: {', '.join(failed)}" if failed else "every chosen stage passed")
    return 1 if failed else 0


def run(stage: Stage, note: Path) -> bool:
    """Run one stage, note it when it passed, and return whether it did."""
    seed = os.environ.get("EPOCHMQ_SEED") or str(int(time.time()))
    print(f"\n== {stage.name}: EPOCHMQ_SEED={seed}", flush=True)
    environment = {**os.environ, "EPOCHMQ_TESTS": "soak", "EPOCHMQ_SEED": seed}
    done = subprocess.run(stage.command, cwd=ROOT, env=environment | stage.environment, check=False)
    if done.returncode == 0:
        note.parent.mkdir(exist_ok=True)
        with note.open("a", encoding="utf-8") as file:
            file.write(f"{stage.name}\n")
    return done.returncode == 0


def commit() -> str:
    """Return the commit that is checked out; changed files make it another one each time."""
    head = ("git", "rev-parse", "--short=12", "HEAD")
    name = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    changes = ("git", "status", "--porcelain", "--untracked-files=no")
    dirty = subprocess.run(changes, cwd=ROOT, capture_output=True, check=True).stdout
    return f"{name}-changed" if dirty else name


if __name__ == "__main__":
    sys.exit(main())
