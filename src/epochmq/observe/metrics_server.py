"""Answers scrapes of Prometheus, in short steps, so that no request waits for a scrape."""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Protocol

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.native.memory import NativeMemory
from epochmq.observe.families import CONTENT_TYPE_LATEST, Family, write_families
from epochmq.observe.process_metrics import process_families
from epochmq.observe.store_times import ColdRead
from epochmq.runtime.health_server import Checks, HealthServer, Page
from epochmq.runtime.metrics_options import MetricsOptions, is_enabled, parse_labels

log = logging.getLogger(__name__)

STEP_MS = 0.1
"""A scrape lets other work run after this time."""
PART_BYTES = 64 * 1024
"""The text is kept in parts of this size, each of which is sent in one step."""
_ORIGIN = "metricsPromExporterPort"


class Metrics(Protocol):
    """The metrics of one server."""

    def common_labels(self) -> Mapping[str, str]:
        """Return the labels of every sample."""
        ...

    def families(self) -> Iterator[Family | ColdRead | None]:
        """Yield all metrics, None where a long computation can be interrupted, and cold reads."""
        ...


class Scrapes:
    """Writes the metrics of a server; scrapes at the same time share one answer."""

    def __init__(self, metrics: Metrics, labels: Mapping[str, str], limit: int) -> None:
        self._metrics = metrics
        self._labels = labels
        self._limit = limit
        self._running: asyncio.Task[list[memoryview]] | None = None

    async def write(self) -> list[memoryview]:
        """Return the text of all metrics, in parts of at most `PART_BYTES`.

        The list is the caller's own, so that the last reader of a part frees it.
        """
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._write())
            self._running.add_done_callback(self._done)
        return list(await asyncio.shield(self._running))

    def _done(self, task: asyncio.Task[list[memoryview]]) -> None:
        self._running = None

    async def _write(self) -> list[memoryview]:
        with _no_collection():
            return await self._parts()

    async def _parts(self) -> list[memoryview]:
        labels = {**self._labels, **self._metrics.common_labels()}
        families: list[Family] = []
        turn = _Turn()
        for family in self._metrics.families():
            if isinstance(family, Family):
                if family.common is not None:
                    family = replace(family, common={**self._labels, **family.common})
                families.append(family)
            elif family is not None:
                await asyncio.to_thread(family)
            await turn.rest()
        families += process_families()
        text = _Text()
        for piece in write_families(families, labels, self._limit):
            text.add(piece)
            await turn.rest()
        return text.parts()


class _Text:
    """A long text in mapped parts: the system gets each one back when its last reader is done.

    The C library would return the whole text in one step that takes milliseconds, because the first
    part is freed first and the last one is at the heap's end.
    """

    def __init__(self) -> None:
        self._parts: list[memoryview] = []
        self._left = memoryview(b"")
        """What the last part still has room for."""

    def add(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            if not self._left:
                self._left = NativeMemory(PART_BYTES).view
                self._parts.append(self._left)
            size = min(len(view), len(self._left))
            self._left[:size] = view[:size]
            self._left, view = self._left[size:], view[size:]

    def parts(self) -> list[memoryview]:
        """Return the parts; nothing may be added any more."""
        if self._parts:
            last = self._parts[-1]
            self._parts[-1] = last[: len(last) - len(self._left)]
        return self._parts


@contextmanager
def _no_collection() -> Iterator[None]:
    """Stop Python's collector of cycles during a scrape.

    The samples of a large broker are hundreds of thousands of new objects, none in a cycle. They
    would make the collector look through all of them again and again, for milliseconds each time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Turn:
    """Lets other work of the event loop run when a step was long enough."""

    def __init__(self) -> None:
        self._until = time.monotonic() + STEP_MS / 1000

    async def rest(self) -> None:
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + STEP_MS / 1000


@asynccontextmanager
async def serve_metrics(
    options: MetricsOptions, bind_address: str, metrics: Metrics, checks: Checks
) -> AsyncIterator[None]:
    """Answer scrapes while the block runs, if the options ask for it.

    A port that cannot be used is logged: a server without metrics is better than none.
    """
    if not is_enabled(options):
        yield
        return
    labels = parse_labels(options.metrics_label)
    scrapes = Scrapes(metrics, labels, options.metrics_otel_cardinality_limit)
    page = Page(CONTENT_TYPE_LATEST, scrapes.write)
    server = HealthServer(checks, {"/metrics": page, "/": page})
    host = options.metrics_prom_exporter_host or bind_address
    try:
        port = server.start(host, options.metrics_prom_exporter_port, origin=_ORIGIN)
        log.info("metrics are at http://%(host)s:%(port)d/metrics", {"host": host, "port": port})
    except (EnvironmentFault, UsageError) as error:
        log.error("no metrics: %(error)s", {"error": error})
    try:
        yield
    finally:
        server.stop()
