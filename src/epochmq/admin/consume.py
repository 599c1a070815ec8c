"""`epochmq consume TOPIC`: prints the messages of a topic."""

import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.name_completion import complete_groups, complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.shared.output import note, output_option

if TYPE_CHECKING:
    from epochmq.admin.messages.following import OnMessages
    from epochmq.admin.messages.position import StartPosition
    from epochmq.admin.messages.printer import Printer
    from epochmq.client.aio import Sql
    from epochmq.model.message import StoredMessage

_POLL_MS = 15_000
_POLL_TO_END_MS = 1_000


@dataclass(frozen=True, slots=True)
class _ConsumeJob:
    """The parameters of one run."""

    namesrv: str
    topic: str
    group: str | None
    expression: "str | Sql"
    position: "StartPosition"
    count: int | None
    to_end: bool
    pop: bool = False
    invisible_ms: int = 60_000
    waits: bool = False
    """Whether to wait for a topic that does not exist."""


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@namesrv_option
@click.option(
    "--from",
    "position",
    metavar="first|last|OFFSET|TIME",
    help="Where to begin: first, last, an offset, -10 (the last ten of each queue), 15m (ago),"
    " 2024-05-01T12:00, @MS."
    "  [default: last; first with --exit]",
)
@click.option("--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option(
    "--wait",
    is_flag=True,
    help="If the topic does not exist, wait until somebody creates it, and begin at its first"
    " message.",
)
@click.option("--exit", "to_end", is_flag=True, help="Stop at the end instead of waiting for more.")
@click.option(
    "-g",
    "--group",
    shell_complete=complete_groups,
    help="Consume as a member of this group and commit its offsets.",
)
@click.option(
    "--pop",
    is_flag=True,
    help="Consume by POP: queues are not divided between members. Requires --group.",
)
@click.option(
    "--invisible",
    "invisible_s",
    type=click.IntRange(5, 300),
    default=60,
    show_default=True,
    help="With --pop: seconds after which other members may get a message that was popped"
    " and not printed.",
)
@click.option("--tags", help="Only these tags: 'A || B'.")
@click.option("--sql", help="Only what matches: \"a > 5 AND TAGS = 'x'\".")
@output_option
def command(
    topic: str,
    namesrv: str,
    position: str | None,
    count: int | None,
    wait: bool,
    to_end: bool,
    group: str | None,
    pop: bool,
    invisible_s: int,
    tags: str | None,
    sql: str | None,
    output: str,
) -> None:
    """Print the messages of TOPIC and wait for more; Ctrl-C ends.

    On a terminal with time, queue@offset, tags and keys; in a pipe the bodies, one a line;
    with -o json everything. Without --group nothing is left behind at the broker.
    """
    from epochmq.admin.messages import position as positions
    from epochmq.admin.messages.position import checked_group, checked_sql, checked_topic
    from epochmq.admin.messages.printer import Printer, style_for
    from epochmq.base.errors import NotFound
    from epochmq.client.aio import Sql
    from epochmq.runtime.main import run

    if tags and sql:
        raise click.UsageError("--tags and --sql exclude each other")
    if pop and group is None:
        raise click.UsageError("--pop needs --group: what is popped is a group's")
    begin = position or ("first" if to_end else "last")
    job = _ConsumeJob(
        namesrv,
        checked_topic(topic),
        checked_group(group) if group else None,
        Sql(checked_sql(sql)) if sql else tags or "*",
        positions.parse(begin, int(time.time() * 1_000)),
        count,
        to_end,
        pop,
        invisible_s * 1_000,
        wait,
    )
    printer = Printer(style_for(output))
    try:
        run(_consume(job, printer))
    except NotFound as error:
        raise NotFound(str(error) if wait else f"{error}, or wait for it with --wait") from None
    if sys.stderr.isatty():
        note(f"{printer.count:,} messages")


async def _consume(job: _ConsumeJob, printer: "Printer") -> None:
    import asyncio

    from epochmq.runtime.signals import stop_on_signals

    with stop_on_signals() as stop:
        reading = asyncio.create_task(_read(job, printer))
        stopping = asyncio.create_task(stop.wait())
        try:
            # Ctrl-C is the usual end of following, and no failure.
            await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            reading.cancel()
            await asyncio.wait((reading, stopping))
        if not reading.cancelled():
            reading.result()
        printer.flush()


async def _read(job: _ConsumeJob, printer: "Printer") -> None:
    def on_messages(messages: "list[StoredMessage]") -> bool:
        for message in messages:
            if job.count is not None and printer.count >= job.count:
                break
            printer.show(message)
        return job.count is None or printer.count < job.count

    if job.waits:
        from epochmq.admin.messages.position import FIRST
        from epochmq.admin.messages.topic_wait import wait_for_topic

        if await wait_for_topic(job.namesrv, job.topic):
            job = replace(job, position=FIRST)  # what was sent meanwhile is part of the topic
    if job.group is None:
        await _pull(job, printer, on_messages)
    elif job.pop:
        await _pop(job, job.group, printer, on_messages)
    else:
        await _join(job, job.group, printer, on_messages)


async def _pull(job: _ConsumeJob, printer: "Printer", on_messages: "OnMessages") -> None:
    from epochmq.admin.messages.following import GROUP, follow, read_to_end, spans_of
    from epochmq.client.aio import PullConsumer

    async with PullConsumer(job.namesrv, GROUP) as consumer:
        spans = await spans_of(consumer, job.topic, job.position)
        more = await read_to_end(consumer, spans, job.expression, on_messages)
        printer.flush()
        if more and not job.to_end:
            await follow(consumer, spans, job.expression, _at_once(printer, on_messages))


async def _join(
    job: _ConsumeJob, group: str, printer: "Printer", on_messages: "OnMessages"
) -> None:
    from epochmq.admin.messages.grouped import QueueEnds, consume, start_of
    from epochmq.client.aio import PushConsumer

    ends = await QueueEnds.of(job.namesrv, job.topic) if job.to_end else None
    async with PushConsumer(
        job.namesrv,
        group,
        start=start_of(job.position),
        concurrency=1,
        batch_size=1 if job.count else 32,
    ) as consumer:
        at_end = None if ends is None else partial(ends.reached, consumer)
        await consume(consumer, job.topic, job.expression, _at_once(printer, on_messages), at_end)


async def _pop(job: _ConsumeJob, group: str, printer: "Printer", on_messages: "OnMessages") -> None:
    from epochmq.admin.messages.grouped import consume, pop_start_of
    from epochmq.client.aio import PopConsumer

    async with PopConsumer(
        job.namesrv,
        group,
        start=pop_start_of(job.position),
        concurrency=1,
        invisible_ms=job.invisible_ms,
        poll_ms=_POLL_TO_END_MS if job.to_end else _POLL_MS,
    ) as consumer:
        at_end = consumer.found_nothing if job.to_end else None
        await consume(consumer, job.topic, job.expression, _at_once(printer, on_messages), at_end)


def _at_once(printer: "Printer", on_messages: "OnMessages") -> "OnMessages":
    """Return `on_messages` with a flush after it.

    The messages must be visible at once, and before a commit.
    """

    def show_now(messages: "list[StoredMessage]") -> bool:
        more = on_messages(messages)
        printer.flush()
        return more

    return show_now
