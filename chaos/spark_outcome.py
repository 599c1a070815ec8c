"""What a campaign against the archive gave, how it goes on, and its page."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from chaos import spark_plan as plans
from chaos.spark_driver import PHASES

VICTIMS = (plans.DRIVER, plans.EXECUTOR, plans.WORKER, plans.MASTER)


@dataclass
class Outcome:
    """What a leg of a campaign gave: as far as it came on one topic and one table."""

    format: str
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    """By victim, what the driver was in, and Spark's master."""
    runs: int = 0
    alone: int = 0
    """Drivers whose JVM was left to notice."""
    checks: int = 0
    rows: int = 0
    acked: int = 0
    refused: int = 0
    batches: int = 0
    orphans: int = 0
    seconds: float = 0.0

    def of(self, victim: str) -> int:
        """How many died."""
        return sum(n for what, n in self.kills.items() if what.startswith(f"{victim}, "))

    def sessions(self) -> int:
        """Drivers that died with a session of Spark, or while its JVM was starting."""
        spark = [what for what in self.kills if not what.endswith(f"master {plans.NO_SPARK}")]
        begun = [what for what in spark if what.split(", ")[1] != PHASES[""]]
        return sum(self.kills[what] for what in begun if what.startswith(plans.DRIVER))


def read_legs(record: Path | None, format: str) -> list[Outcome]:
    """What earlier runs recorded."""
    if record is None or not record.exists():
        return []
    found = [json.loads(line) for line in record.read_text().splitlines()]
    legs = [Outcome(**{**each, "kills": Counter(each["kills"])}) for each in found]
    return [leg for leg in legs if leg.format == format]


def done(legs: list[Outcome]) -> Counter[str]:
    """Who died in them."""
    have = Counter({victim: sum(leg.of(victim) for leg in legs) for victim in VICTIMS})
    have[plans.SESSION] = sum(leg.sessions() for leg in legs)
    return have


def still(wanted: Counter[str], have: Counter[str]) -> Counter[str]:
    """What is to die yet; every session needs a driver to die with it."""
    left = Counter({what: max(n - have[what], 0) for what, n in wanted.items()})
    left[plans.DRIVER] = max(left[plans.DRIVER], left[plans.SESSION])
    return left


def report(format: str, legs: list[Outcome]) -> str:
    """The campaign in a few lines."""
    kills: Counter[str] = Counter()
    for leg in legs:
        kills.update(leg.kills)
    have = done(legs)
    lines = [
        f"{format}: {', '.join(f'{have[each]} {each}s' for each in VICTIMS)} killed in"
        f" {sum(leg.seconds for leg in legs):.0f} s, {len(legs)} tables;"
        f" {have[plans.SESSION]} of the drivers with a session of Spark,"
        f" {sum(leg.alone for leg in legs)} alone",
        *(f"  {count:3} x {what}" for what, count in sorted(kills.items())),
        f"{sum(leg.runs for leg in legs)} runs, {sum(leg.batches for leg in legs):,} batches,"
        f" {sum(leg.checks for leg in legs)} checks on the way",
        f"{sum(leg.rows for leg in legs):,} rows = messages by place and id,"
        f" {sum(leg.acked for leg in legs):,} of them acknowledged: 0 repeated, 0 missing;"
        f" {sum(leg.orphans for leg in legs)} files that no table names",
    ]
    return "\n".join(lines)
