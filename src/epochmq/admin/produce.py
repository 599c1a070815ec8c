"""`epochmq produce TOPIC [FILE]`: a message for each line."""

import os
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.name_completion import complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.shared.output import JSON, note, output_option, print_json

if TYPE_CHECKING:
    from epochmq.admin.messages.lines import Defaults
    from epochmq.admin.messages.sender import RateSender
    from epochmq.client.aio import Producer

GROUP = "epochmq-produce"


@dataclass(frozen=True, slots=True)
class _ProduceJob:
    """What is to be sent, and how."""

    namesrv: str
    handle: int
    defaults: "Defaults"
    as_json: bool
    count: int | None
    rate: float
    total_bytes: int | None
    interactive: bool
    transaction: str | None = None


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("file", required=False)
@namesrv_option
@click.option(
    "-k",
    "--key",
    help="Key of every message: messages with one key stay in order, and can be found by it.",
)
@click.option("--tags", help="Tag of every message.")
@click.option(
    "--delay",
    metavar="DURATION|LEVEL",
    help="Delay: a time such as 90s or 1h30m, or a level: 1 is 1 s, 2 is 5 s, ... 18 is 2 h.",
)
@click.option("--at", metavar="TIME", help="Time of delivery: 2024-05-01T12:00, or @ and Unix ms.")
@click.option(
    "--transaction",
    type=click.Choice(["commit", "rollback", "unknown"]),
    help="Send each message in a transaction that ends so; unknown leaves it open.",
)
@click.option("--json", "as_json", is_flag=True, help="Each line is a JSON object; see below.")
@click.option("--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option(
    "--rate", type=click.FloatRange(0), default=0.0, help="Highest rate, in messages a second."
)
@output_option
def command(
    topic: str,
    file: str | None,
    namesrv: str,
    key: str | None,
    tags: str | None,
    delay: str | None,
    at: str | None,
    transaction: str | None,
    as_json: bool,
    count: int | None,
    rate: float,
    output: str,
) -> None:
    """Send each line of FILE, or of standard input, as a message to TOPIC.

    With --json a line is {"body": ..., "tags": ..., "keys": ..., "properties": {...}, "key": ...};
    only body (or body_base64) must be there, and what `consume -o json` prints fits.
    Empty lines are left out: brokers refuse empty messages. A summary goes to stderr.
    """
    from epochmq.admin.messages.lines import Defaults
    from epochmq.admin.messages.position import checked_topic
    from epochmq.runtime.main import run

    topic = checked_topic(topic)
    if transaction and (delay or at):
        raise click.UsageError("a message of a transaction cannot be delayed")
    level, delay_ms, at_ms = _when(delay, at)
    with ExitStack() as stack:
        source = stack.enter_context(click.open_file(file or "-", "rb"))
        handle = source.fileno()
        size = os.fstat(handle).st_size if file not in (None, "-") else None
        interactive = os.isatty(handle)
        job = _ProduceJob(
            namesrv,
            handle,
            Defaults(topic, tags, key, level, delay_ms, at_ms),
            as_json,
            count,
            rate,
            size,
            interactive,
            transaction,
        )
        if interactive:
            note("one message a line; Ctrl-D ends")
        run(_produce(job, output))


def _when(delay: str | None, at: str | None) -> tuple[int, int, int]:
    """(level, delay in ms, wall ms) of every message that does not say it itself."""
    from epochmq.admin.messages import transactions
    from epochmq.base.errors import UsageError

    if delay is not None and at is not None:
        raise UsageError("--delay and --at are two answers to one question; give one")
    level, delay_ms = (0, 0) if delay is None else transactions.delay(delay)
    at_ms = 0 if at is None else transactions.moment(at)
    if at is not None and at_ms <= time.time() * 1_000:
        note(f"--at {at} is in the past: messages are delivered at once")
    return level, delay_ms, at_ms


async def _produce(job: _ProduceJob, output: str) -> None:
    from epochmq.admin.messages.sender import RateSender
    from epochmq.admin.messages.transactions import producer_for

    began = time.monotonic()
    sender = None
    try:
        async with producer_for(job.namesrv, GROUP, job.transaction) as producer:
            await _check_name_servers(producer, job.defaults.topic)
            sender = RateSender(producer, job.defaults.topic)
            async with sender:
                await _feed(job, sender)
    finally:
        if sender is not None:
            _summary(sender, time.monotonic() - began, output)


async def _check_name_servers(producer: "Producer", topic: str) -> None:
    """Ask for the topic once, since sends would try a name server that is not there for long.

    Raises:
        NotReachable: no name server answers.
    """
    from epochmq.base.errors import NotFound, Refused

    with suppress(NotFound, Refused):  # the first send creates the topic, or says what is wrong
        await producer.instance.ensure_route(topic, create=True)


async def _feed(job: _ProduceJob, sender: "RateSender") -> None:
    from epochmq.admin.messages.lines import from_json, from_line, lines
    from epochmq.admin.messages.sender import SendPace
    from epochmq.admin.shared.output import Bar

    pace, number, read, put = SendPace(job.rate), 0, 0, 0
    total = job.count or job.total_bytes
    shown = not job.interactive and sys.stderr.isatty()
    with Bar(f"to {job.defaults.topic}", total, shown=shown) as bar:
        async for line in lines(job.handle):
            number += 1
            read += len(line) + 1
            if not (line.strip() if job.as_json else line):
                continue
            await pace.next()
            await sender.put(
                from_json(line, job.defaults, number)
                if job.as_json
                else from_line(line, job.defaults)
            )
            put += 1
            bar.set(put if job.count else read, f"{sender.sent:,} sent")
            if put == job.count:
                break
        await sender.drain()


def _summary(sender: "RateSender", seconds: float, output: str) -> None:
    from epochmq.admin.shared.output import rate, size

    if not sender.sent and output != JSON:
        return note("nothing was sent")
    figures = sender.latencies.as_dict()
    if output == JSON:
        print_json(
            {
                "sent": sender.sent,
                "bytes": sender.sent_bytes,
                "seconds": round(seconds, 3),
                **figures,
            }
        )
        return
    note(
        f"sent {sender.sent:,} messages, {size(sender.sent_bytes)}, in {seconds:.2f} s"
        f" ({rate(sender.sent, seconds)}); p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms"
    )
