"""`python -m chaos lake-kill`: `epochmq lake` and masters die while topics are kept as tables.

One topic for each table format gets messages all the time. At random moments the service or the
master of the broker group is killed with SIGKILL. The age of the newest row of each table is
measured every second. The verdict: table and topic are equal by place and id, `epochmq
pipeline verify` finds nothing, and the service ends with exit code 0 when it is asked to.
"""

import argparse
import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as compute
from pyarrow import parquet
from tests.compat.peers.group import Group
from tests.compat.peers.process import Process, wait_until

from chaos import spark_verdict as verdict
from chaos.figures import percentile
from chaos.spark_feed import BROKER, Feed, held
from epochmq.tables.opening import FORMATS, open_table

QUEUES = 4
FIRST_ROWS_S = 60.0
LAST_ROWS_S = 120.0
SAMPLE_S = 1.0
PAUSE_S = (10.0, 40.0)
"""Between two kills."""
MASTER_AWAY_S = (0.0, 3.0)
SERVICE_SHARE = 0.6
"""Of the kills; the others kill the master."""


@dataclass
class TableFigures:
    """What was seen of one table."""

    ages_s: list[float] = field(default_factory=list)
    """Age of the newest row at each sample, from the first commit on."""
    files_max: int = 0
    files: int = 0
    """At the end."""
    rows: int = 0
    acked: int = 0
    refused: int = 0
    """Batches of messages of which nobody knows whether they are stored."""


@dataclass
class Outcome:
    """One run."""

    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    tables: dict[str, TableFigures] = field(default_factory=dict)


class Watch(threading.Thread):
    """Measures how old the newest row of each table is, and how many files it has."""

    def __init__(self, warehouse: Path, outcome: Outcome) -> None:
        super().__init__(daemon=True)
        self._warehouse = warehouse
        self._tables = outcome.tables
        self._newest_s: dict[str, float] = {}
        """Store time of the newest row of each file that was read; a file never changes."""
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            for topic, figures in self._tables.items():
                self.sample(topic, figures)

    def sample(self, topic: str, figures: TableFigures) -> None:
        try:
            files = open_table(str(self._warehouse / topic)).files()
            newest = max(map(self._newest_of, files), default=0.0)
        except Exception:  # it is being created, or its catalog is locked for a moment
            if figures.ages_s:
                figures.ages_s.append(figures.ages_s[-1] + SAMPLE_S)
            return
        if files:
            figures.ages_s.append(time.time() - newest)
            figures.files_max = max(figures.files_max, len(files))
            figures.files = len(files)

    def _newest_of(self, file: str) -> float:
        if file not in self._newest_s:
            times = parquet.read_table(file, columns=["storeTimestamp"]).column(0)
            self._newest_s[file] = compute.max(times).as_py().timestamp()
        return self._newest_s[file]

    def end(self) -> None:
        self._ended.set()
        self.join()


class Drill:
    """One broker group, one service, a topic and a table for each format."""

    def __init__(
        self, group: Group, place: Path, seed: int, interval_s: float, *, learner: bool = False
    ) -> None:
        self._group = group
        self._place = place
        self._seed = seed
        self._chance = random.Random(seed)
        self._formats = {f"lake_{each}": each for each in FORMATS}
        """By topic."""
        self.outcome = Outcome(tables={topic: TableFigures() for topic in self._formats})
        self._service = Process(
            "lake",
            self._command(
                "lake",
                *("--warehouse", str(place), "--interval", str(interval_s)),
                *(["--learner"] if learner else []),
            ),
            place / "lake.log",
            {},
        )

    def run(self, minutes: float) -> Outcome:
        """Kill for so many minutes, then judge.

        `AssertionError` for a lost or repeated message, `TimeoutError` for rows that do not come.
        """
        outcome, began = self.outcome, time.monotonic()
        for topic, format in self._formats.items():
            self._run("topic", "create", topic, "--queues", str(QUEUES), "--table", format)
        with self._feeds() as feeds:
            self._service.start()
            watch = Watch(self._place, outcome)
            watch.start()
            wait_until(self._has_rows, FIRST_ROWS_S, "rows in each table")
            while time.monotonic() < began + minutes * 60:
                time.sleep(self._chance.uniform(*PAUSE_S))
                self._kill()
            watch.end()
        for topic, feed in feeds.items():
            self._judge(topic, feed)
        assert self._service.stop(60) == 0, self._service.log_tail()
        for topic in self._formats:
            self._run("pipeline", "verify", str(self._place / topic), "--master", "none")
        outcome.seconds = time.monotonic() - began
        return outcome

    def _judge(self, topic: str, feed: Feed) -> None:
        figures = self.outcome.tables[topic]
        figures.acked, figures.refused = len(feed.acked), feed.refused
        stored = asyncio.run(held(self._group.namesrv_addr, topic))
        table = self._place / topic
        wait_until(
            lambda: verdict.marked(table, f"lake:{topic}") >= len(stored), LAST_ROWS_S, "last rows"
        )
        rows = verdict.rows_of(open_table(str(table)))
        verdict.judge(rows, stored, feed.acked)
        figures.rows = len(rows)

    @contextmanager
    def _feeds(self) -> Iterator[dict[str, Feed]]:
        """Send to each topic until the block ends."""
        namesrv = self._group.namesrv_addr
        with ExitStack() as stack:
            yield {
                topic: stack.enter_context(Feed(namesrv, topic, self._seed + number))
                for number, topic in enumerate(self._formats)
            }

    def _has_rows(self) -> bool:
        return all(figures.ages_s for figures in self.outcome.tables.values())

    def _kill(self) -> None:
        if self._chance.random() < SERVICE_SHARE:
            self._service.kill9()
            self.outcome.kills["service"] += 1
            self._service.start()
            return
        master = self._group.master()
        if master is None:  # an election is under way
            return
        master.process.kill9()
        self.outcome.kills["master"] += 1
        time.sleep(self._chance.uniform(*MASTER_AWAY_S))
        master.start()
        self._group.wait_ready()

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "epochmq", *arguments, "-n", self._group.namesrv_addr]

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"


def report(outcome: Outcome) -> str:
    """The run on one page."""
    kills = ", ".join(f"{what} {count}" for what, count in sorted(outcome.kills.items()))
    lines = [f"lake-kill: {outcome.seconds:.0f} s, killed with SIGKILL: {kills or 'nothing'}"]
    for topic, figures in outcome.tables.items():
        ages = sorted(figures.ages_s)
        lines.append(
            f"{topic}: acknowledged {figures.acked:,}, rows {figures.rows:,}, 0 lost, 0 repeated;"
            f" age of the newest row: p50 {percentile(ages, 50):.1f} s,"
            f" p99 {percentile(ages, 99):.1f} s, max {ages[-1]:.1f} s;"
            f" files: at most {figures.files_max}, at the end {figures.files}; verify found nothing"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Run one drill; exit code 1 for a loss, and what it left is kept."""
    parser = argparse.ArgumentParser(prog="python -m chaos lake-kill", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--interval", type=float, default=10.0, help="of epochmq lake, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learner", action="store_true", help="the service follows the log")
    args = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="lake-kill-"))
    with Group(broker_config=BROKER) as group:
        drill = Drill(group, place, args.seed, args.interval, learner=args.learner)
        try:
            outcome = drill.run(args.minutes)
        except (AssertionError, TimeoutError) as violation:
            sys.exit(f"VIOLATION {violation}\nafter {dict(drill.outcome.kills)}; kept: {place}")
    shutil.rmtree(place)
    print(report(outcome))
