"""`python -m chaos members`: members of one consumer group join, leave and are killed under load.

Each member is a process with a `PushConsumer`. A member that leaves gets SIGTERM and closes its
consumer, or SIGKILL. Each message must be handled, and in an ordered group each queue in order and
by one member at a time. Messages that are handled again are counted: a killed member, or one that
loses a queue, had handled them and not committed.
"""

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.peers.epochmq import EpochCluster

from epochmq import Admin, Message, MessageQueue, Producer, PushConsumer, StoredMessage, TopicConfig

TOPIC, GROUP = "Members", "members"
DRAIN_S = 180.0
"""So long members may take for the rest after the last send: a killed member's locks of queues live
for 60 s.
"""
BEGIN, END = "begin", "end"


@dataclass(frozen=True)
class Handled:
    """One call of a listener: `end_ns` is None if the member was killed in it."""

    queue: int
    number: int
    begin_ns: int
    end_ns: int | None


@dataclass
class Verdict:
    """What the calls of all listeners show."""

    distinct: int = 0
    repeated: int = 0
    missing: list[tuple[int, int]] = field(default_factory=list)
    """Queue and number of messages that no listener handled."""
    out_of_order: list[tuple[int, int, int]] = field(default_factory=list)
    """Queue, number, and the number that should have been handled before it."""
    overlapping: list[tuple[int, int, int]] = field(default_factory=list)
    """Queue and numbers of two calls at the same time."""


def judge(calls: Iterable[Handled], sent: Sequence[int], *, ordered: bool) -> Verdict:
    """Compare the calls with what was sent.

    Args:
        calls: of all members, in any order.
        sent: how many messages each queue got; their numbers are 0 and so on.
        ordered: whether queues must be handled in order and by one member at a time.
    """
    verdict = Verdict()
    by_queue: defaultdict[int, list[Handled]] = defaultdict(list)
    for call in calls:
        by_queue[call.queue].append(call)
    for queue, count in enumerate(sent):
        own = sorted(by_queue[queue], key=lambda call: call.begin_ns)
        done = {call.number for call in own if call.end_ns is not None}
        verdict.missing += [(queue, number) for number in range(count) if number not in done]
        verdict.distinct += len(done)
        verdict.repeated += sum(call.end_ns is not None for call in own) - len(done)
        if not ordered:
            continue
        following, before = 0, None
        for call in own:
            if call.number > following:
                verdict.out_of_order.append((queue, call.number, following))
            following = max(following, call.number + 1)
            if before is not None and before.end_ns is not None and call.begin_ns < before.end_ns:
                verdict.overlapping.append((queue, before.number, call.number))
            before = call
    return verdict


# A member ------------------------------------------------------------------------------------


async def member(namesrv: str, file: Path, *, ordered: bool) -> None:
    """Consume until SIGTERM, and write each call of the listener to `file`."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with file.open("a", buffering=1) as record:

        async def handle(messages: list[StoredMessage]) -> None:
            for message in messages:
                text = message.body.decode()
                record.write(f"{BEGIN} {text} {time.monotonic_ns()}\n")
                await asyncio.sleep(0.001)
                record.write(f"{END} {text} {time.monotonic_ns()}\n")

        async with PushConsumer(namesrv, GROUP, ordered=ordered, start="first") as consumer:
            consumer.on_message(handle)
            await consumer.subscribe(TOPIC)
            await consumer.start()
            await stop.wait()


def read_calls(file: Path) -> list[Handled]:
    """Return the calls that a member wrote; a last line that was not finished is left out."""
    calls: list[Handled] = []
    open_calls: dict[str, int] = {}
    for line in file.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        text, _, at = rest.partition(" ")
        if not at:
            continue
        queue, _, number = text.partition(":")
        if kind == BEGIN:
            open_calls[text] = int(at)
        elif text in open_calls:
            calls.append(Handled(int(queue), int(number), open_calls.pop(text), int(at)))
    for text, at_ns in open_calls.items():
        queue, _, number = text.partition(":")
        calls.append(Handled(int(queue), int(number), at_ns, None))
    return calls


# The group -----------------------------------------------------------------------------------


class Members:
    """The processes of one run."""

    def __init__(
        self, namesrv: str, directory: Path, *, ordered: bool, kills: float, seed: int
    ) -> None:
        self._namesrv = namesrv
        self._kills = kills
        self._directory = directory
        self._ordered = ordered
        self._rng = random.Random(seed)
        self._running: list[subprocess.Popen[bytes]] = []
        self._leaving: list[subprocess.Popen[bytes]] = []
        self.joined = self.left = self.killed = 0

    def join(self) -> None:
        """Start a member."""
        file = self._directory / f"member-{self.joined}"
        kind = ["--ordered"] if self._ordered else []
        command = [sys.executable, "-m", "chaos.members", "--member", str(file), *kind]
        self._running.append(subprocess.Popen([*command, "--namesrv", self._namesrv]))
        self.joined += 1

    def leave(self) -> None:
        """Stop or kill a member."""
        process = self._running.pop(self._rng.randrange(len(self._running)))
        if self._rng.random() < self._kills:
            process.kill()
            self.killed += 1
        else:
            process.terminate()
            self.left += 1
        self._leaving.append(process)

    def calls(self) -> list[Handled]:
        """Return the calls of all listeners so far."""
        return [call for file in self._directory.glob("member-*") for call in read_calls(file)]

    def handled(self) -> int:
        """Return how many different messages were handled so far."""
        ended = (call for call in self.calls() if call.end_ns is not None)
        return len({(call.queue, call.number) for call in ended})

    def stop(self) -> None:
        """Stop all members and wait for their end."""
        for process in self._running:
            process.terminate()
        for process in (*self._running, *self._leaving):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def send(namesrv: str, queues: int, rate: float, seconds: float) -> list[int]:
    """Send to all queues in turn; return how many messages each got."""
    sent = [0] * queues
    async with Producer(namesrv, "members-producer", timeout_ms=30_000) as producer:
        found = sorted(await producer.queues(TOPIC), key=lambda queue: queue.queue_id)

        async def one(queue: MessageQueue) -> None:
            number = sent[queue.queue_id]
            await producer.send(Message(TOPIC, f"{queue.queue_id}:{number}".encode()), queue=queue)
            sent[queue.queue_id] += 1

        begun = time.monotonic()
        while (elapsed := time.monotonic() - begun) < seconds:
            await asyncio.gather(*(one(queue) for queue in found))
            await asyncio.sleep(max(0.0, sum(sent) / rate - elapsed))
    return sent


async def play(
    members: Members, namesrv: str, *, count: int, queues: int, seconds: float, every_s: float
) -> list[int]:
    """Let members join and leave while messages are sent; return the messages of each queue."""
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(TOPIC, queues, queues))
    for _ in range(count):
        members.join()
    sending = asyncio.create_task(send(namesrv, queues, rate=queues, seconds=seconds))
    while not (await asyncio.wait([sending], timeout=every_s))[0]:
        members.leave()
        members.join()
    sent = sending.result()
    deadline = time.monotonic() + DRAIN_S
    while (  # noqa: ASYNC110 (other processes write the files)
        time.monotonic() < deadline and await asyncio.to_thread(members.handled) < sum(sent)
    ):
        await asyncio.sleep(1)
    return sent


def run(
    count: int,
    queues: int,
    seconds: float,
    *,
    every_s: float,
    ordered: bool,
    kills: float,
    seed: int,
) -> tuple[Verdict, Members, int]:
    """Run a broker and the members; return the verdict, the members and how much was sent."""
    with tempfile.TemporaryDirectory(prefix="members-") as place, EpochCluster() as cluster:
        namesrv = cluster.namesrv_addr
        members = Members(namesrv, Path(place), ordered=ordered, kills=kills, seed=seed)
        try:
            sent = asyncio.run(
                play(members, namesrv, count=count, queues=queues, seconds=seconds, every_s=every_s)
            )
        finally:
            members.stop()
        return judge(members.calls(), sent, ordered=ordered), members, sum(sent)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the drill, or one member."""
    parser = argparse.ArgumentParser(prog="python -m chaos members", description=__doc__)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--queues", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two changes")
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--kills", type=float, default=0.5, help="share of leaves by kill -9")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--member", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--namesrv", default="", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.member is not None:
        asyncio.run(member(chosen.namesrv, chosen.member, ordered=chosen.ordered))
        return
    verdict, members, sent = run(
        chosen.members,
        chosen.queues,
        chosen.seconds,
        every_s=chosen.every,
        ordered=chosen.ordered,
        kills=chosen.kills,
        seed=chosen.seed,
    )
    print(
        f"{chosen.members} members, {members.joined} joined, {members.left} left,"
        f" {members.killed} killed\n{sent} messages in {chosen.queues} queues:"
        f" {verdict.distinct} handled, {verdict.repeated} of them again,"
        f" {len(verdict.missing)} missing, {len(verdict.out_of_order)} out of order,"
        f" {len(verdict.overlapping)} at the same time as another of their queue"
    )
    if verdict.missing or verdict.out_of_order or verdict.overlapping:
        for text, found in (
            ("missing", verdict.missing),
            ("out of order", verdict.out_of_order),
            ("overlapping", verdict.overlapping),
        ):
            print(f"{text}: {found[:10]}")
        sys.exit(1)


if __name__ == "__main__":
    main()
