"""A Celery application with the transport, for workers that the tests start and kill."""

import os
import time
from pathlib import Path

from celery import Celery
from kombu import Queue

import epochmq.kombu  # noqa: F401 -- names the transport

app = Celery(
    "shop",
    broker=f"epochmq://{os.environ.get('EPOCHMQ_NAMESRV', '127.0.0.1:9876')}",
    backend=f"file://{os.environ.get('EPOCHMQ_RESULTS', '/nonexistent')}",
)
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    task_queues=[Queue("celery"), Queue("urgent", max_priority=9)],
    broker_transport_options={"visibility_timeout": 5},
)


@app.task  # type: ignore[untyped-decorator]
def add(a: int, b: int) -> int:
    return a + b


@app.task  # type: ignore[untyped-decorator]
def add_by_another_task(a: int, b: int) -> str:
    """A child of the worker sends a task too."""
    return str(add.delay(a, b).id)


@app.task  # type: ignore[untyped-decorator]
def note_begin_and_end(path: str, seconds: float) -> None:
    for line in ("begin\n", "end\n"):
        with Path(path).open("a") as file:
            file.write(line)
        time.sleep(seconds if line == "begin\n" else 0)


@app.task  # type: ignore[untyped-decorator]
def note(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(text)
