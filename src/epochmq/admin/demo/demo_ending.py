"""How the demo ends: with Spark's archive, its report, and the picture. Left out without Spark."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from epochmq.admin.demo import lake
from epochmq.admin.demo.delays import Delay, of_flights
from epochmq.admin.demo.flights import Flight
from epochmq.admin.demo.lake import Facts, Lake
from epochmq.admin.demo.picture import CurveMark, draw
from epochmq.admin.demo.run import TOPIC, DemoOutcome


class DemoEnding:
    """`begin` once the topic is there, `finish` when all has arrived, `judge` last."""

    def __init__(
        self, directory: Path, namesrv: str, say: Callable[[str], None], *, spark: bool
    ) -> None:
        self._namesrv = namesrv
        self._say = say
        self._wanted = spark
        self._missing = lake.missing() if spark else None
        self._lake = Lake(directory, TOPIC, say)
        self._facts: Facts | None = None
        self._seconds = 0.0

    @property
    def _on(self) -> bool:
        return self._wanted and self._missing is None

    def begin(self) -> None:
        if self._on:
            self._lake.start(self._namesrv)
        elif self._wanted:
            self._say(f"without Spark: {self._missing}")

    def finish(self) -> None:
        """Archive the rest and ask for the report; errors: `EnvironmentFault`."""
        if not self._on:
            return
        began = time.monotonic()
        self._lake.finish(self._namesrv)
        self._say("all is archived; Spark SQL reports")
        self._facts = self._lake.query()
        self._seconds = time.monotonic() - began

    def stop(self) -> None:
        self._lake.stop()

    def judge(
        self, outcome: DemoOutcome, source: Iterable[Flight], picture: Path
    ) -> dict[str, Any] | None:
        """Put what is wrong with the table into the verdict; what was found, for the report."""
        facts = self._facts
        if facts is not None:
            sent = outcome.verdict.sent
            outcome.verdict.problems += lake.judge(facts, sent, of_flights(source))
        drawn = draw(picture, outcome.curve.points(), marks(outcome), _delays(facts))
        if facts is None:
            return {"left_out": self._missing} if self._wanted else None
        found = lake.as_report(facts, self._seconds)
        return {**found, "picture": str(picture) if drawn else None}


def _delays(facts: Facts | None) -> list[Delay]:
    return [] if facts is None else facts.delays


def marks(outcome: DemoOutcome) -> list[CurveMark]:
    """Each kill, until the first acknowledgement after it, on the curve's time."""
    found: list[CurveMark] = []
    for each in outcome.timelines:
        at = outcome.curve.since_start(each.killed_s)
        text, pause_ms = f"{each.master} killed", each.first_ack_ms or 0.0
        if each.first_ack_ms is not None:
            text += f": epoch {each.new_epoch} after {pause_ms:.0f} ms"
        found.append(CurveMark(at, at + pause_ms / 1_000, text))
    return found
