"""`python -m chaos spark-kill`: drivers, executors and masters die while a topic is archived.

Rounds: some messages are sent, an archive is started as a process of its own, something is killed
with SIGKILL at a random point, until that was done `--count` times; then one run ends in peace.
The verdict compares the ids in the table with those of the messages: each once, none missing.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.peers.group import Group

from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark.jobs.tables.base import batch_of
from epochmq.spark.jobs.tables.opening import arrow_dataset, open_table, paths_of

TOPIC = "Archived"
QUEUES = 4
BATCH_ROWS = 500
ROUND_ROWS = 20_000
SEND_ROWS = 250
BODY = b"x" * 200
STARTED_MAX_S = 180.0
ENDS_MAX_S = 300.0
POINTS = ("start-up", "batch", "commit")
VICTIMS = ("driver", "executor", "master")
MASTERS = {"driver": "local[2]", "executor": "local-cluster[2,1,1024]", "master": "local[2]"}


@dataclass
class Outcome:
    """What a campaign gave."""

    kills: Counter[str] = field(default_factory=Counter)
    """By victim and point."""
    runs: int = 0
    finished_before: int = 0
    """Runs that were done before the blow fell; they do not count."""
    rows: int = 0
    orphans: int = 0
    seconds: float = 0.0


class Campaign:
    """One table, one topic, many deaths."""

    def __init__(self, args: argparse.Namespace, group: Group, place: Path) -> None:
        self.args = args
        self.group = group
        self.table = place / "table"
        self.log = place / "driver.log"
        self.chance = random.Random(args.seed)
        self.outcome = Outcome()
        self.ids: set[str] = set()
        self._start_up_s = 3.0

    def run(self) -> Outcome:
        """All rounds, then the verdict; `AssertionError` for a lost or repeated message."""
        began = time.monotonic()
        asyncio.run(self._make_topic())
        while self.outcome.kills.total() < self.args.count:
            asyncio.run(self._send(ROUND_ROWS))
            self._round()
        self._finish()
        self.outcome.seconds = time.monotonic() - began
        self._judge()
        return self.outcome

    async def _make_topic(self) -> None:
        async with Admin(self.group.namesrv_addr) as admin:
            await admin.create_topic(TopicConfig(TOPIC, QUEUES, QUEUES))

    async def _send(self, count: int) -> None:
        async with Producer(self.group.namesrv_addr, "spark-kill") as producer:
            for _ in range(0, count, SEND_ROWS):
                sent = await producer.send_batch([Message(TOPIC, BODY) for _ in range(SEND_ROWS)])
                self.ids.update(sent.msg_id.split(","))

    # One round ------------------------------------------------------------------------------

    def _start(self) -> "subprocess.Popen[bytes]":
        master = self.args.master or MASTERS[self.args.victim]
        argv = [
            *(sys.executable, "-m", "epochmq", "pipeline", "archive", TOPIC),
            *("--table", str(self.table), "--format", self.args.format),
            *("-n", self.group.namesrv_addr, "--max-rows", str(BATCH_ROWS), "--master", master),
        ]
        self.outcome.runs += 1
        with self.log.open("ab") as out:
            return subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True)

    def _round(self) -> None:
        driver = self._start()
        began = time.monotonic()
        try:
            point = self._wait_for_a_point(driver, began)
            if driver.poll() is not None:
                assert driver.returncode == 0, self._end_of_log()
                self.outcome.finished_before += 1
            elif self.args.victim == "driver":
                kill_all(driver)
                self._note(point)
            else:
                self._strike(driver, point)
                driver.wait(ENDS_MAX_S)
                assert driver.returncode == 0, self._end_of_log()
        finally:
            kill_all(driver)

    def _note(self, point: str) -> None:
        self.outcome.kills[f"{self.args.victim} {point}"] += 1
        print(f"{self.outcome.kills.total():3} {self.args.victim} killed: {point}", flush=True)

    def _wait_for_a_point(self, driver: "subprocess.Popen[bytes]", began: float) -> str:
        """Return at a random moment of the kind that this round is for."""
        # What is killed besides drivers exists only once batches are done.
        points = POINTS if self.args.victim == "driver" else POINTS[1:]
        point = points[self.outcome.kills.total() % len(points)]
        if point == "start-up":
            pause(driver, self.chance.uniform(0, self._start_up_s))
            return point
        before = self._last_file()
        wait_for(driver, lambda: self._last_file() > before)
        self._start_up_s = time.monotonic() - began
        if point == "batch":
            pause(driver, self.chance.uniform(0, 3))
            return point
        # A task has just closed its file, so that the transaction is next, or under way.
        at_least = self._last_file() + self.chance.randrange(1, 9)
        wait_for(driver, lambda: self._last_file() >= at_least)
        pause(driver, self.chance.uniform(0, 0.03))
        return point

    def _last_file(self) -> int:
        """The number of the newest batch that has a file, committed or not."""
        names = (path.name for path in self.table.rglob("e*.parquet"))
        return max((int(name[1:13]) for name in names), default=0)

    def _strike(self, driver: "subprocess.Popen[bytes]", point: str) -> None:
        if self.args.victim == "master":
            master = self.group.master()
            assert master is not None
            master.process.kill9()
            self._note(point)
            time.sleep(self.chance.uniform(0, 1))
            master.start()
            self.group.wait_ready()
            return
        victims = [each for each in descendants(driver.pid) if is_executor(each)]
        if victims:
            os.kill(self.chance.choice(victims), signal.SIGKILL)
            self._note(point)

    # The end --------------------------------------------------------------------------------

    def _finish(self) -> None:
        driver = self._start()
        try:
            driver.wait(ENDS_MAX_S)
        finally:
            kill_all(driver)
        assert driver.returncode == 0, self._end_of_log()

    def _judge(self) -> None:
        table = open_table(str(self.table))
        found = Counter(arrow_dataset(table).to_table(columns=["msgId"])["msgId"].to_pylist())
        self.outcome.rows = found.total()
        named = set(paths_of(table))
        written = [path for path in table.storage.find() if batch_of(path) is not None]
        self.outcome.orphans = sum(path not in named for path in written)
        repeated = [each for each, count in found.items() if count > 1]
        assert not repeated, f"{len(repeated)} messages are in the table more than once"
        missing = self.ids - found.keys()
        assert not missing, f"{len(missing)} of {len(self.ids)} messages are not in the table"
        assert found.keys() == self.ids, f"{len(found.keys() - self.ids)} messages nobody sent"

    def _end_of_log(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def wait_for(driver: "subprocess.Popen[bytes]", condition: Callable[[], bool]) -> None:
    """Until the condition holds or the driver is gone."""
    deadline = time.monotonic() + STARTED_MAX_S
    while driver.poll() is None and not condition():
        assert time.monotonic() < deadline, "the archive does not get on"
        time.sleep(0.002)


def pause(driver: "subprocess.Popen[bytes]", seconds: float) -> None:
    """So long, or until the driver is gone."""
    try:
        driver.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


def kill_all(driver: "subprocess.Popen[bytes]") -> None:
    """The driver, its JVM, and the workers, which have groups of their own."""
    ours = [driver.pid, *descendants(driver.pid)] if driver.poll() is None else []
    for pid in ours:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    driver.wait()


def descendants(pid: int) -> list[int]:
    """Children of `pid`, and theirs."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))

    def below(parent: int) -> Iterator[int]:
        for each in children.get(parent, []):
            yield each
            yield from below(each)

    return list(below(pid))


def is_executor(pid: int) -> bool:
    """A JVM that runs tasks, or a Python worker of one."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"CoarseGrainedExecutorBackend" in command or b"pyspark.daemon" in command


def main(arguments: list[str]) -> None:
    """Run one campaign; exit code 1 for a loss."""
    parser = argparse.ArgumentParser(prog="python -m chaos spark-kill", description=__doc__)
    parser.add_argument("--format", choices=("delta", "iceberg", "parquet"), default="delta")
    parser.add_argument("--victim", choices=VICTIMS, default="driver")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", help="of Spark; `none` kills drivers without a JVM, quickly")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="spark-kill-") as place, Group() as group:
        try:
            outcome = Campaign(args, group, Path(place)).run()
        except AssertionError as violation:
            sys.exit(f"VIOLATION {violation}; replay: python -m chaos spark-kill {arguments}")
    print(report(args.format, outcome))


def report(format: str, outcome: Outcome) -> str:
    """The campaign in a few lines."""
    kills = ", ".join(f"{count} x {what}" for what, count in sorted(outcome.kills.items()))
    return (
        f"{format}: {outcome.kills.total()} kills in {outcome.seconds:.0f} s: {kills}\n"
        f"{outcome.runs} runs, {outcome.finished_before} of them done before the blow\n"
        f"{outcome.rows:,} rows = messages by id, 0 repeated, 0 missing;"
        f" {outcome.orphans} files left over"
    )
