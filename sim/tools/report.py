"""The text report of a failed history (rule 7)."""

import subprocess
from pathlib import Path

from sim.kernel.plan import Outcome

ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    """Return the commit under test, or `unknown` outside a repository."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, timeout=10
        )
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def report(outcome: Outcome) -> str:
    """Return seed, commit, replay command, schedule, last events, and the state of each host."""
    plan = outcome.plan
    lines = [
        f"VIOLATION {outcome.violation}",
        f"world {plan.world}, seed {plan.seed}, commit {commit()[:12]}",
        f"replay: {plan.command()}",
        f"after {outcome.simulated_ms} simulated ms, {outcome.events} events",
        f"faults ({len(outcome.faults)}):",
        *(f"  {fault}" for fault in outcome.faults),
        f"last {len(outcome.last)} events:",
        *(f"  {line}" for line in outcome.last),
        "states:",
        *(f"  {line}" for line in outcome.states),
    ]
    if outcome.traceback:
        lines += ["traceback:", outcome.traceback]
    return "\n".join(lines)
