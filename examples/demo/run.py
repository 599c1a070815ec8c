"""The course of the demo: start, flood, kill, rejoin, drain, steady stream, verdict."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from epochmq.admin.messages.lines import Outbound
from epochmq.admin.messages.sender import RateSender, SendPace
from epochmq.admin.shared.output import Latencies
from epochmq.base.errors import EnvironmentFault
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from examples.demo.failovers import Failovers, KillTimeline
from examples.demo.flights import Flight
from examples.demo.members import DemoMembers, key_of, last_words
from examples.demo.verdict import DemoVerdict, RateCurve, judge

# Display --------------------------------------------------------------------------------------
# How far the demo is: two bars on a terminal, a line now and then elsewhere; all on stderr.


if TYPE_CHECKING:
    from rich.progress import Progress

LINE_S = 5.0


class Display:
    """`with Display(total) as display: display.say("..."); display.show(sent, received)`."""

    def __init__(self, total: int, *, bars: bool | None = None) -> None:
        self._total = total
        self._bars = sys.stderr.isatty() if bars is None else bars
        self._began = time.monotonic()
        self._next_s = LINE_S
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        if self._bars:
            self._progress = _progress()
            self._sent = self._progress.add_task("sent", total=self._total)
            self._received = self._progress.add_task("received", total=self._total)
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """A line that stays."""
        line = f"{self.seconds:5.1f} s  {text}"
        if self._progress is not None:
            self._progress.console.print(line, highlight=False, markup=False)
        else:
            click.echo(line, err=True)

    def show(self, sent: int, received: int) -> None:
        """Where it stands; may be called at any rate."""
        if self._progress is not None:
            self._progress.update(self._sent, completed=sent)
            self._progress.update(self._received, completed=received, refresh=True)
        elif self.seconds >= self._next_s:
            self._next_s = self.seconds + LINE_S
            self.say(f"sent {sent:,}, received {received:,}")


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description:>9}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
    )


# Course ---------------------------------------------------------------------------------------


TOPIC = "flights"
GROUP = "flight-board"
PRODUCER_GROUP = "epochmq-demo"
NAMES = ("member-1", "member-2", "member-3")
VICTIM = "member-2"
QUEUES = 12
FLOOD_SHARE = 0.8
KILL_SHARE = 0.2
"""When a member of the consumer group is killed,"""
MASTER_KILL_SHARES = (0.4, 0.75)
"""and when the master of the moment is."""
DOWN_S = 2.0
JOIN_S = 30.0
STALL_S = 75.0
"""A member that does not come back keeps its queues locked for 60 s."""
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """`rate` is that of the steady part, in messages a second."""

    namesrv: str
    directory: Path
    flights: Iterable[Flight]
    count: int
    rate: float
    on_topic: Callable[[], None] = lambda: None
    """Called once the topic is there."""


@dataclass(slots=True)
class DemoOutcome:
    """What was measured."""

    verdict: DemoVerdict
    flood_count: int = 0
    flood_s: float = 0.0
    down_s: float = 0.0
    steady_count: int = 0
    steady_rate: float = 0.0
    flood_sends: Latencies = field(default_factory=Latencies)
    steady_sends: Latencies = field(default_factory=Latencies)
    steady_end_to_end: Latencies = field(default_factory=Latencies)
    timelines: list[KillTimeline] = field(default_factory=list)
    curve: RateCurve = field(default_factory=RateCurve)
    sent_bytes: int = 0


class Demo:
    """One run on a cluster that is up."""

    def __init__(self, plan: Plan, display: Display, failovers: Failovers | None = None) -> None:
        self._plan = plan
        self._display = display
        self._failovers = failovers
        self._members = DemoMembers(plan.namesrv, TOPIC, GROUP, plan.directory)
        self._sent: Counter[str] = Counter()
        self._outcome = DemoOutcome(DemoVerdict(0))
        self._steady_from: Counter[str] = Counter()
        self._killed = ""
        self._rejoining: asyncio.Task[None] | None = None

    async def run(self) -> DemoOutcome:
        """All parts in turn; errors: `EnvironmentFault` when it cannot even be played."""
        async with Admin(self._plan.namesrv) as admin:
            config = TopicConfig(TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            await admin.create_topic(config)
        self._plan.on_topic()
        tasks = [asyncio.create_task(self._play()), asyncio.create_task(self._watch())]
        try:
            # The watch ends only with an error, the play also without one.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._members.stop()
            self._members.read()
        return self._conclude()

    async def _play(self) -> None:
        for name in NAMES:
            await self._members.start(name)
        await self._members.wait_shared(QUEUES, JOIN_S)
        self._display.say(f"{len(NAMES)} members share {QUEUES} queues")
        async with Producer(self._plan.namesrv, PRODUCER_GROUP) as producer:
            await self._stream(producer)

    async def _stream(self, producer: Producer) -> None:
        flights = iter(self._plan.flights)
        flood = int(self._plan.count * FLOOD_SHARE)
        await self._flood(producer, flights, flood)
        steady = self._plan.count - flood
        self._steady_from = Counter(self._sent)
        self._display.say(f"now {steady:,} at a steady {self._plan.rate:,.0f} a second")
        began = time.monotonic()
        async with RateSender(producer, TOPIC, self._acknowledged) as sender:
            pace = SendPace(self._plan.rate)
            for flight in flights:
                await pace.next()
                await self._put(sender, flight)
        self._outcome.steady_rate = steady / max(time.monotonic() - began, 0.001)
        self._outcome.steady_count = steady
        self._outcome.steady_sends = sender.latencies
        self._outcome.sent_bytes += sender.sent_bytes
        await self._drain()

    async def _flood(self, producer: Producer, flights: Iterable[Flight], count: int) -> None:
        self._display.say(f"{count:,} flights as fast as they go")
        kill_at = int(count * KILL_SHARE)
        shares = MASTER_KILL_SHARES if self._failovers else ()
        failover_at = {int(count * share) for share in shares}
        began = time.monotonic()
        async with RateSender(producer, TOPIC, self._acknowledged) as sender:
            for index, flight in enumerate(islice(flights, count)):
                if index == kill_at:
                    await self._kill()
                if self._failovers and index in failover_at:
                    await self._failovers.kill()
                await self._put(sender, flight)
        self._outcome.sent_bytes += sender.sent_bytes
        self._outcome.flood_sends = sender.latencies
        if self._failovers:
            await self._failovers.wait_in_sync()
            self._outcome.timelines = self._failovers.timelines
        await self._drain()
        self._outcome.flood_count = count
        self._outcome.flood_s = time.monotonic() - began

    def _acknowledged(self, began_s: float, count: int) -> None:
        self._outcome.curve.add(time.monotonic(), count)
        if self._failovers:
            self._failovers.acknowledged(began_s)

    async def _put(self, sender: RateSender, flight: Flight) -> None:
        key = key_of(flight.carrier, flight.number)
        message = Message(TOPIC, flight.body, tags=flight.carrier, keys=(key,))
        await sender.put(Outbound(message, flight.carrier))
        self._sent[flight.carrier] += 1

    async def _kill(self) -> None:
        (victim,) = (life for life in self._members.alive() if life.name == VICTIM)
        self._killed = victim.label
        await self._members.kill(victim)
        self._display.say(f"{VICTIM} killed (SIGKILL), with a third of the queues in its hands")
        self._rejoining = asyncio.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        began = time.monotonic()
        await asyncio.sleep(DOWN_S)
        await self._members.start(VICTIM)
        await self._members.wait_shared(QUEUES, JOIN_S)
        self._outcome.down_s = time.monotonic() - began
        self._display.say(f"{VICTIM} is back with its queues, {self._outcome.down_s:.1f} s later")

    async def _drain(self) -> None:
        """Until the members noted everything sent; gives up when nothing moves any more."""
        if self._rejoining is not None:
            await self._rejoining
        total, seen, moved_at = sum(self._sent.values()), -1, time.monotonic()
        while self._members.distinct < total:
            if self._members.distinct != seen:
                seen, moved_at = self._members.distinct, time.monotonic()
            if time.monotonic() - moved_at > STALL_S:
                self._display.say(f"nothing arrives any more, {total - seen:,} are missing")
                return
            await asyncio.sleep(LOOK_S)

    async def _watch(self) -> None:
        while True:
            self._members.read()
            self._display.show(sum(self._sent.values()), self._members.distinct)
            for life in self._members.lives:
                if life.process.returncode is not None and life.label != self._killed:
                    raise EnvironmentFault(f"{life.label} ended by itself: {last_words(life)}")
            await asyncio.sleep(LOOK_S)

    def _conclude(self) -> DemoOutcome:
        runs = [(life.label, life.records) for life in self._members.lives]
        outcome = self._outcome
        outcome.verdict = judge(self._sent, runs, self._killed)
        for _, records in runs:
            for record in records:
                if record.number >= self._steady_from[record.carrier]:
                    outcome.steady_end_to_end.add(record.latency_ms)
        return outcome
