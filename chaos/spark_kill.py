"""`python -m chaos spark-kill`: drivers, executors and masters die while a topic is archived.

Messages keep coming. Runs of the archive follow each other at once; in each something is killed
with SIGKILL at random points, and then most often its driver, until enough have died. One run ends
in peace. The verdict compares table and topic by places and ids: each message once, none missing.
What died is counted by where the driver was at that moment, as the driver itself wrote it down.
"""

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from tests.compat.peers.group import Group, Server
from tests.compat.peers.process import wait_until

from chaos import spark_plan as plans
from chaos import spark_verdict as verdict
from chaos.spark_driver import TOPIC, Driver, Gone, Over, kill
from chaos.spark_feed import BROKER, Feed, held
from chaos.spark_jvm import Jvm
from chaos.spark_outcome import VICTIMS, Outcome, done, read_legs, report, still
from chaos.spark_plan import Run
from epochmq.client.aio import Admin
from epochmq.model.topic import TopicConfig
from epochmq.tables.opening import FORMATS, open_table

QUEUES = 4
OWNER = f"archive:{TOPIC}"
ENDS_MAX_S = 900.0
WHOLE_S = 300.0
ALONE = 0.3
"""Share of drivers that die alone, so that the next one meets a JVM that still works."""
COMMAND = {plans.EXECUTOR: b"CoarseGrainedExecutorBackend", plans.WORKER: b"pyspark.daemon"}
GUESSED_S = {"planned": 0.3, "written": 0.05}
WHOLE_START = "whole start"


class Campaign:
    """One table, one topic, many deaths."""

    def __init__(
        self, args: argparse.Namespace, wanted: Counter[str], group: Group, place: Path, leg: int
    ) -> None:
        self.outcome = Outcome(args.format, args.seed)
        self._args = args
        self._wanted = wanted
        self._group = group
        self._place = place
        self._table = place / "table"
        self._chance = random.Random(f"{args.seed}:{leg}")
        self._began = time.monotonic()
        self._ends = self._began + args.minutes * 60
        self._gaps: dict[tuple[str, str], deque[float]] = defaultdict(lambda: deque(maxlen=20))
        """How long runs of a mode took from one step to the next, lately."""
        self._left: Driver | None = None
        self._jvm = Jvm((place / "jvm.log").open("wb"))
        self._checker = ThreadPoolExecutor(1)
        self._checked: Future[int | None] | None = None

    def end_now(self, *_signal: object) -> None:
        """No more kills: the verdict."""
        self._ends = 0.0

    def _over(self) -> bool:
        return time.monotonic() > self._ends

    def run(self) -> Outcome:
        """All runs, then the verdict; `AssertionError` for a lost or repeated message."""
        asyncio.run(self._make_topic())
        with Feed(self._group.namesrv_addr, TOPIC, self._args.seed) as feed:
            while (missing := self._missing()).total() and not self._over():
                for run in plans.plan(missing, self._chance):
                    if not self._over():
                        self._one(run)
        self._finish()
        self.outcome.seconds = time.monotonic() - self._began
        self._judge(feed)
        return self.outcome

    async def _make_topic(self) -> None:
        async with Admin(self._group.namesrv_addr) as admin:
            await admin.create_topic(TopicConfig(TOPIC, QUEUES, QUEUES))

    def _missing(self) -> Counter[str]:
        """What is still to die, sessions and all."""
        return still(self._wanted, done([self.outcome]))

    # One run --------------------------------------------------------------------------------

    @contextmanager
    def _driver(self, mode: str, *more: str) -> Iterator[Driver]:
        """A started run; what it leaves is gone when the next one is over."""
        self.outcome.runs += 1
        namesrv = self._group.namesrv_addr
        given = [namesrv, str(self._table), self._args.format, mode, *more]
        jvm = self._jvm if mode == plans.KEPT else None
        driver = Driver(given, self._place, self.outcome.runs, self._over, jvm)
        try:
            yield driver
        except Gone as gone:
            driver.bury()
            raise AssertionError(f"{gone}\n{driver.end_of_log()}") from None
        except BaseException:
            driver.bury()
            raise
        finally:
            if self._left is not None:
                self._left.bury()
            self._left = driver
            self._learn(driver)

    def _learn(self, driver: Driver) -> None:
        known = [("started", driver.began), *(step for step in driver.look())]
        for (step, at), (_, then) in pairwise(known):
            self._gaps[driver.mode, step].append(then - at)
        planned = [at for step, at in driver.steps if step == "planned"]
        if planned:
            self._gaps[driver.mode, WHOLE_START].append(planned[0] - driver.began)

    def _within(self, mode: str, step: str) -> float:
        """A random time of about what follows the step."""
        known = sorted(self._gaps[mode, step]) or [GUESSED_S[step]]
        return self._chance.uniform(0, known[len(known) // 2])

    def _one(self, run: Run) -> None:
        try:
            with self._driver(run.mode) as driver:
                self._check()
                for victim in run.blows:
                    self._strike(driver, victim)
                if run.point is None:
                    driver.end_well(ENDS_MAX_S, ask=True)
                    return
                self._aim(driver, run.point)
                alone = run.mode == plans.KEPT or (
                    run.mode != plans.NO_SPARK and self._chance.random() < ALONE
                )
                self.outcome.alone += alone
                self._note(plans.DRIVER, driver.kill(alone), driver)
        except Over:
            pass

    def _note(self, victim: str, phase: str, driver: Driver) -> None:
        self.outcome.kills[f"{victim}, {phase}, master {driver.mode}"] += 1
        count = self.outcome.of(victim)
        said = f"{victim} {count} of {self._wanted[victim]} killed in {phase}"
        print(f"{time.monotonic() - self._began:6.0f} s {said}, {driver.mode}", flush=True)

    def _check(self) -> None:
        """Rows against the mark, in the time that the next driver takes to start."""
        if self._checked is not None and self._checked.result() is not None:
            self.outcome.checks += 1
        self._checked = self._checker.submit(verdict.check, self._table, OWNER)

    def _aim(self, driver: Driver, point: str) -> None:
        """Return at a random moment of this kind."""
        mode = driver.mode
        if point == plans.START_UP:
            known = self._gaps[mode, WHOLE_START]
            whole = known[-1] if known else 3.0
            driver.pause(self._chance.uniform(0, whole))
            return
        driver.wait("planned", self._chance.randrange(1, 8))
        if point == plans.ANY:
            driver.pause(self._chance.uniform(0, 4))
        elif point == plans.COMMIT:
            driver.wait("written")
            driver.pause(self._within(mode, "written"))
        else:
            driver.pause(self._within(mode, "planned"))

    def _strike(self, driver: Driver, victim: str) -> None:
        """Somebody else dies; the archive goes on without a new start."""
        driver.wait("committed")
        master = self._master()
        driver.wait("planned", self._chance.randrange(1, 4))
        driver.pause(self._within(driver.mode, "planned"))
        if victim == plans.MASTER:
            master.process.kill9()
            self._note(victim, driver.phase(), driver)
            time.sleep(self._chance.uniform(0, 1))
            master.start()
            self._group.wait_ready(WHOLE_S)
        else:
            while not (found := driver.find(COMMAND[victim])):
                driver.pause(0.1)  # the one killed before has not come back yet
            kill(self._chance.choice(found))
            self._note(victim, driver.phase(), driver)
        driver.wait("committed", 2)

    def _master(self) -> Server:
        wait_until(lambda: self._group.master() is not None, WHOLE_S, "a master")
        found = self._group.master()
        assert found is not None
        return found

    # The end --------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._ends = float("inf")
        mode = plans.KEPT if self._wanted[plans.SESSION] else plans.NO_SPARK
        with self._driver(mode, "until-now") as driver:
            driver.end_well(ENDS_MAX_S, ask=False)
        driver.bury()
        self._jvm.close()
        self._check()
        self._check()
        self._checker.shutdown()

    def _judge(self, feed: Feed) -> None:
        table = open_table(str(self._table))
        rows = verdict.rows_of(table)
        topic = asyncio.run(held(self._group.namesrv_addr, TOPIC))
        outcome = self.outcome
        outcome.rows, outcome.acked, outcome.refused = len(rows), len(feed.acked), feed.refused
        outcome.orphans = verdict.orphans(table)
        found = table.last_batch(OWNER)
        outcome.batches = found[0] if found else 0
        verdict.judge(rows, topic, feed.acked)


def main(arguments: list[str]) -> None:
    """Run one campaign, or go on with one; exit code 1 for a loss."""
    args = parse(arguments)
    legs = read_legs(args.record, args.format)
    wanted = still(counts(args), done(legs))
    if wanted.total():
        legs.append(leg(args, wanted, len(legs)))
        if args.record:
            with args.record.open("a") as file:
                file.write(json.dumps(vars(legs[-1])) + "\n")
    print(report(args.format, legs))


def leg(args: argparse.Namespace, wanted: Counter[str], number: int) -> Outcome:
    """One topic and one table; after a violation both the table and what drivers said are kept."""
    place = Path(tempfile.mkdtemp(prefix="spark-kill-"))
    group = Group(broker_config=BROKER)
    group.ready_timeout_s = WHOLE_S
    with group:
        campaign = Campaign(args, wanted, group, place, number)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, campaign.end_now)
        try:
            outcome = campaign.run()
        except AssertionError as violation:
            sys.exit(
                f"VIOLATION {violation}\nafter {dict(campaign.outcome.kills)}; kept: {place};"
                f" replay: python -m chaos spark-kill {again(args, wanted)}"
            )
    shutil.rmtree(place, ignore_errors=True)
    return outcome


def again(args: argparse.Namespace, wanted: Counter[str]) -> str:
    """The options of this leg by itself."""
    given = {"format": args.format, "victim": args.victim, "count": args.count, "seed": args.seed}
    given["sessions"] = wanted[plans.SESSION]
    return " ".join(f"--{name} {value}" for name, value in given.items())


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m chaos spark-kill", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, default="delta")
    parser.add_argument("--victim", choices=("all", *VICTIMS), default="all")
    parser.add_argument(
        "--count", type=int, default=60, help="drivers; executors and masters: a third of it"
    )
    parser.add_argument(
        "--sessions", type=int, help="of the drivers so many run Spark; by default a third"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="end with what was killed then")
    parser.add_argument("--record", type=Path, help="file of what was done: a next run goes on")
    return parser.parse_args(arguments)


def counts(args: argparse.Namespace) -> Counter[str]:
    """Who is to die how often."""
    third = -(-args.count // 3)
    if args.victim != "all":
        wanted = Counter({args.victim: args.count})
    else:
        wanted = Counter(dict.fromkeys(VICTIMS, third) | {plans.DRIVER: args.count})
        wanted[plans.WORKER] = -(-third // 2)
    given = third if args.sessions is None else args.sessions
    wanted[plans.SESSION] = min(given, wanted[plans.DRIVER])
    return wanted
