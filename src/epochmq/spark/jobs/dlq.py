"""Job `dlq`: groups the dead letters in %DLQ%group by cause, and resends selected ones.

It does not use Spark, since dead letters are few. It groups them, checks the original messages, and
never resends a letter twice (`dlq_ledger.py`).
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochmq.base.errors import EpochError, NotFound, Refused, UsageError
from epochmq.client.aio import Admin, Producer
from epochmq.model import names as names_of
from epochmq.model import property_names as names
from epochmq.model.copied_properties import LEFT_OUT
from epochmq.model.message import Message
from epochmq.model.names import check_group, check_topic, dlq_topic, retry_topic
from epochmq.runtime.main import run
from epochmq.runtime.tls import OutgoingTls, client_tls
from epochmq.spark.connection_options import credentials_in
from epochmq.spark.jobs.dlq_causes import BY, Dead, Pick, causes, check_field, dead_of
from epochmq.spark.jobs.dlq_ledger import Ledger, LetterRun, open_ledger, read_ledger
from epochmq.spark.jobs.job_report import JobReport, Progress, no_progress
from epochmq.spark.spark_cluster import Cluster
from epochmq.wire.pulled_messages import decode_messages

RETRY, ORIGIN = "retry", "origin"
FORWARDS_MAX = 1_000_000
"""The most letters that are read at one time; they are kept in memory."""
BYTES_MAX = 2 << 30
REDRIVE_OF = "REDRIVE_OF"
"""Property of a resent message: the place of its dead letter."""
_ASKED_AT_ONCE = 16
_KEPT = frozenset((names.UNIQ_KEY, names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID))


@dataclass(frozen=True, slots=True)
class Dlq:
    """Options of the job; `to` is retry (only this group), origin (all consumers), or a topic."""

    name_server: str
    group: str
    by: tuple[str, ...] = BY
    pick: Pick = field(default_factory=Pick)
    origins: int = 200
    """The number of letters whose original message is looked up."""
    to: str = ""
    ledger: Path | None = None
    rate: float = 0.0
    tls: OutgoingTls = field(default_factory=OutgoingTls)

    def __post_init__(self) -> None:
        try:
            check_group(self.group)
            if self.to and self.to not in (RETRY, ORIGIN):
                check_topic(self.to)
        except Refused as error:
            raise UsageError(error.remark) from None
        for name in self.by:
            check_field(name)
        if self.to and self.ledger is None:
            raise UsageError("sending letters once more needs a ledger: name a file with --ledger")
        if self.rate < 0:
            raise UsageError("a rate must not be negative")


def dlq(job: Dlq, *, dry_run: bool = False, progress: Progress = no_progress) -> JobReport:
    """Group the letters that `job.pick` selects; with `job.to`, resend those never resent
    before.
    """
    report = JobReport("dlq")
    letters = read_letters(job, report)
    picked = [dead for dead in letters if job.pick.matches(dead)]
    origins = run(_origins(job, picked[: job.origins]))
    report.rows = len(picked)
    report.bytes = sum(len(dead.body) for dead in picked)
    report.details |= {
        "letters": len(letters),
        "causes": [cause.as_row() for cause in causes(picked, job.by, origins)],
    }
    if not job.to:
        return report.finish("dry-run" if dry_run else None)
    assert job.ledger is not None
    opened = read_ledger if dry_run else open_ledger
    ledger = opened(job.ledger, job.group)
    try:
        return _redrive(job, ledger, letters, picked, report, progress, dry_run=dry_run)
    finally:
        ledger.close()


def read_letters(job: Dlq, report: JobReport) -> list[Dead]:
    """Return all dead letters of the group; raises `NotFound` when it never had one."""
    topic = dlq_topic(job.group)
    found: list[Dead] = []
    size = 0
    with Cluster(job.name_server, tls=job.tls) as cluster:
        try:
            bounds = cluster.bounds(topic)
        except NotFound:
            raise NotFound(f"group {job.group} has no dead letters: there is no {topic}") from None
        for queue, (low, high) in bounds.items():
            report.add_range(topic, f"{queue.broker_name}:{queue.queue_id}", low, high)
            for chunk in cluster.read(queue, low, high):
                for message in decode_messages(chunk.records):
                    found.append(dead_of(message, queue.broker_name))
                    size += len(found[-1].body)
                if len(found) > FORWARDS_MAX or size > BYTES_MAX:
                    raise UsageError(
                        f"{topic} holds more than this job keeps in memory ({FORWARDS_MAX} letters,"
                        f" {BYTES_MAX >> 30} GiB); archive it and ask the table instead"
                    )
    return found


async def _origins(job: Dlq, letters: Sequence[Dead]) -> dict[str, str]:
    """Return, by place, whether the original is there, changed (another body), gone or unknown."""
    gate = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def one(admin: Admin, dead: Dead) -> str:
        if not (dead.topic and dead.origin_id):
            return "unknown"
        async with gate:
            try:
                brokers = await admin.brokers_of(dead.topic)
                found = await admin.message_by_place(dead.origin_id, brokers.values())
            except NotFound:
                return "gone"
            except EpochError:
                return "unknown"
        if found is None:
            return "gone"
        return "there" if found.plain_body() == dead.body else "changed"

    async with _admin(job) as admin:
        told = await asyncio.gather(*(one(admin, dead) for dead in letters))
    return {dead.place: word for dead, word in zip(letters, told, strict=True)}


def _redrive(
    job: Dlq,
    ledger: Ledger,
    letters: Sequence[Dead],
    picked: Sequence[Dead],
    report: JobReport,
    progress: Progress,
    *,
    dry_run: bool,
) -> JobReport:
    by_place = {dead.place: dead for dead in letters}
    rest = ledger.unfinished
    fresh = [dead.place for dead in picked if dead.place not in ledger.done]
    details: dict[str, Any] = {"to": job.to, "alreadySent": len(picked) - len(fresh)}
    if rest is not None:
        fresh = [place for place in fresh if place not in rest.places]
        details["finishing"] = len(rest.places) - rest.sent
    report.details |= {**details, "toSend": len(fresh), "sent": 0}
    if dry_run:
        return report.finish("dry-run")
    before = len(ledger.done)
    if rest is not None:
        run(_send(job, ledger, rest, by_place, progress))
    if fresh:
        run(_send(job, ledger, ledger.begin(job.to, fresh), by_place, progress))
    report.details["sent"] = len(ledger.done) - before
    return report.finish()


def _admin(job: Dlq) -> Admin:
    return Admin(job.name_server, tls=client_tls(job.tls), credentials=credentials_in(job.tls))


async def _send(
    job: Dlq, ledger: Ledger, work: LetterRun, by_place: dict[str, Dead], progress: Progress
) -> None:
    """Resend letters one after another, in the order of the run."""
    began, uncertain = time.monotonic(), work.sent
    async with Producer(
        job.name_server,
        "EPOCHMQ_DLQ",
        timeout_ms=60_000,
        tls=client_tls(job.tls),
        credentials=credentials_in(job.tls),
    ) as producer:
        for number in range(work.sent, len(work.places)):
            dead = _still_there(by_place, work.places[number], ledger)
            topic = target_topic(job.group, work.topic, dead)
            # An interrupted run may have sent one more message than its ledger has.
            offset_id = await _found(job, topic, dead) if number == uncertain else None
            if offset_id is None:
                if job.rate:
                    due = began + (number - uncertain) / job.rate
                    await asyncio.sleep(due - time.monotonic())
                offset_id = (await producer.send(outgoing(dead, topic))).offset_msg_id
            ledger.sent(dead.place, dead.msg_id, offset_id)
            progress(number + 1, len(work.places), f"{number + 1:,} sent")


def _still_there(by_place: dict[str, Dead], place: str, ledger: Ledger) -> Dead:
    if place not in by_place:
        raise NotFound(
            f"the letter at {place} was deleted by retention before it was sent once more; begin a"
            f" new ledger for the others (this one: {ledger.path})"
        )
    return by_place[place]


async def _found(job: Dlq, topic: str, dead: Dead) -> str | None:
    """Return the offset id of a message that an earlier run sent for `dead`, else None."""
    async with _admin(job) as admin:
        try:
            found = await admin.messages_by_uniq_key(topic, dead.msg_id)
        except NotFound:
            return None
    mine = [each for each in found if each.properties.get(REDRIVE_OF) == dead.place]
    return mine[0].offset_msg_id if mine else None


def target_topic(group: str, to: str, dead: Dead) -> str:
    """Return the target topic of a letter; raises `UsageError` when its origin is unknown."""
    if to == RETRY:
        return retry_topic(group)
    if to != ORIGIN:
        return to
    if not dead.topic:
        raise UsageError(f"the letter at {dead.place} does not say its topic; use a topic's name")
    return dead.topic


def outgoing(dead: Dead, topic: str) -> Message:
    """Return the message to resend, with its old id."""
    properties = {
        name: value
        for name, value in dead.properties.items()
        if name in _KEPT or name not in LEFT_OUT
    }
    if not topic.startswith(names_of.RETRY):  # it is not a retry any more
        properties.pop(names.RETRY_TOPIC, None)
    return Message(
        topic, dead.body, properties={**properties, REDRIVE_OF: dead.place}, flag=dead.flag
    )
