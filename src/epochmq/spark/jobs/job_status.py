"""What running jobs report about themselves, as messages of one topic.

Jobs report if the topic EPOCHMQ_JOBS exists: an operator creates it, and gives the users of jobs
the right to send to it. The dashboard shows the latest report of each job. Reports are sent by a
thread: a job never waits for them, and what cannot be sent is dropped.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from epochmq.base.errors import EpochError
from epochmq.client.aio import Admin
from epochmq.client.sync import Producer
from epochmq.model.message import Message
from epochmq.runtime.main import run
from epochmq.runtime.tls import OutgoingTls, client_tls
from epochmq.spark.connection_options import credentials_in

log = logging.getLogger(__name__)

TOPIC = "EPOCHMQ_JOBS"
GROUP = "EPOCHMQ_JOBS"
REPORT_S = 5.0
"""A job that goes on reports after this time."""
RUNNING, DONE, FAILED = "running", "done", "failed"
_TEXT_MAX = 500


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One report of a job.

    Attributes:
        job: name of the job, for example "lake:orders".
        host: name of the machine, with the process id.
        began_ms: when the job began, Unix milliseconds.
        wall_ms: when it reported, Unix milliseconds.
        state: running, done, or failed.
        text: how far it is, in words.
        rows: rows that it processed since it began; None if it does not count rows.
        rate: rows a second since the report before; None if it does not count rows.
        error: its last error, or empty.
        error_ms: when that happened, Unix milliseconds; 0 if it did not.
    """

    job: str
    host: str
    began_ms: int
    wall_ms: int
    state: str = RUNNING
    text: str = ""
    rows: int | None = None
    rate: float | None = None
    error: str = ""
    error_ms: int = 0

    def encoded(self) -> bytes:
        """Return the report as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()


def decode_status(body: bytes) -> JobStatus | None:
    """Return a report; None for bytes that are none."""
    try:
        found: Any = json.loads(body)
        status = JobStatus(
            str(found["job"])[:_TEXT_MAX],
            str(found["host"])[:_TEXT_MAX],
            int(found["began_ms"]),
            int(found["wall_ms"]),
            str(found.get("state", RUNNING))[:_TEXT_MAX],
            str(found.get("text", ""))[:_TEXT_MAX],
            None if found.get("rows") is None else int(found["rows"]),
            None if found.get("rate") is None else float(found["rate"]),
            str(found.get("error", ""))[:_TEXT_MAX],
            int(found.get("error_ms", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return status


class JobReports:
    """Sends the latest report of each job of this process; made by `job_reports`.

    Args:
        send: sends the reports; what it raises is logged once.
        wall_ms: the clock, Unix milliseconds.
    """

    def __init__(self, send: Callable[[list[JobStatus]], None], wall_ms: Callable[[], int]) -> None:
        self._send = send
        self._wall_ms = wall_ms
        self._host = f"{socket.gethostname()}:{os.getpid()}"
        self._jobs: dict[str, JobStatus] = {}
        self._sent: dict[str, JobStatus] = {}
        self._lock = threading.Lock()
        self._problem = ""

    def note(
        self,
        job: str,
        *,
        text: str = "",
        rows: int | None = None,
        state: str = RUNNING,
        error: str = "",
    ) -> None:
        """Note how far a job is; it is sent later. An empty `error` leaves the last one."""
        now = self._wall_ms()
        with self._lock:
            known = self._jobs.get(job) or JobStatus(job, self._host, now, now)
            changed = replace(known, wall_ms=now, state=state, text=text[:_TEXT_MAX], rows=rows)
            if error:
                changed = replace(changed, error=error[:_TEXT_MAX], error_ms=now)
            self._jobs[job] = changed

    def end(self, job: str, error: str = "") -> None:
        """Note that a job ended, with an error or without."""
        with self._lock:
            known = self._jobs.get(job)
        text, rows = (known.text, known.rows) if known is not None else ("", None)
        self.note(job, text=text, rows=rows, state=FAILED if error else DONE, error=error)

    def send(self) -> None:
        """Send the reports of all jobs, with their rates."""
        now = self._wall_ms()
        with self._lock:
            jobs = [
                replace(each, wall_ms=now) if each.state == RUNNING else each
                for each in self._jobs.values()
            ]
            ended = [name for name, each in self._jobs.items() if each.state != RUNNING]
            for name in ended:
                del self._jobs[name]
        reports = [replace(each, rate=self._rate(each)) for each in jobs]
        self._sent = {each.job: each for each in reports}
        if not reports:
            return
        try:
            self._send(reports)
        except EpochError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("the state of jobs is not reported: %(error)s", {"error": error})

    def _rate(self, status: JobStatus) -> float | None:
        before = self._sent.get(status.job)
        if status.rows is None:
            return None
        rows, since_ms = (0, status.began_ms) if before is None else (before.rows, before.wall_ms)
        passed_ms = status.wall_ms - since_ms
        return round((status.rows - (rows or 0)) * 1000 / passed_ms, 1) if passed_ms > 0 else None


@contextmanager
def job_reports(name_server: str, tls: OutgoingTls | None = None) -> Iterator[JobReports]:
    """Yield where jobs note their state; it is sent every 5 s and at the end of the block.

    Nothing is sent, and no connection stays open, if the topic does not exist.
    """
    context = client_tls(tls) if tls is not None else None
    credentials = credentials_in(tls)

    async def exists() -> bool:
        async with Admin(name_server, tls=context, credentials=credentials) as admin:
            try:
                await admin.route(TOPIC)
            except EpochError:
                return False
            return True

    if not run(exists()):
        yield JobReports(lambda _reports: None, _wall_ms)
        return
    with Producer(name_server, GROUP, tls=context, credentials=credentials) as producer:

        def send(reports: list[JobStatus]) -> None:
            for each in reports:
                producer.send(Message(TOPIC, each.encoded(), keys=(each.job,)))

        reports = JobReports(send, _wall_ms)
        over = threading.Event()

        def work() -> None:
            while not over.wait(REPORT_S):
                reports.send()

        thread = threading.Thread(target=work, name="epochmq-job-reports", daemon=True)
        thread.start()
        try:
            yield reports
        finally:
            over.set()
            thread.join()
            reports.send()


def latest_by_job(statuses: Iterable[JobStatus]) -> list[JobStatus]:
    """Return the latest report of each job, the newest first."""
    found: dict[str, JobStatus] = {}
    for each in statuses:
        known = found.get(each.job)
        if known is None or each.wall_ms >= known.wall_ms:
            found[each.job] = each
    return sorted(found.values(), key=lambda each: each.wall_ms, reverse=True)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
