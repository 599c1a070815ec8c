"""Scrapes over HTTP: at the same time, while other work goes on, with a port that is taken."""

import asyncio
import gc
import gzip
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext

import pytest
from tests.observe.test_families import samples_of

from epochmq.observe import metrics_server
from epochmq.observe.families import GAUGE, Family
from epochmq.observe.metrics_server import STEP_MS, Scrapes, serve_metrics
from epochmq.observe.store_times import ColdRead
from epochmq.runtime.health_server import Health
from epochmq.runtime.metrics_options import MetricsOptions
from epochmq.runtime.own_host import free_port

CHECKS = {"/-/healthy": lambda: Health(True, {})}


class Many:
    """Metrics that take long: `steps` pauses, then one family with `rows` samples."""

    def __init__(self, steps: int = 1, rows: int = 1) -> None:
        self.steps, self.rows = steps, rows
        self.scrapes = 0

    def common_labels(self) -> Mapping[str, str]:
        return {"cluster": "c"}

    def families(self) -> Iterator[Family | None]:
        self.scrapes += 1
        for _ in range(self.steps):
            yield None
        rows = [((str(n),), n) for n in range(self.rows)]
        yield Family("a", GAUGE, "A.", ("n",), rows)


def options(**more: object) -> MetricsOptions:
    return MetricsOptions(
        metrics_exporter_type="PROM",
        metrics_prom_exporter_port=free_port("127.0.0.1"),
        **more,  # type: ignore[arg-type]
    )


async def get(port: int, *headers: str, path: str = "/metrics") -> tuple[str, bytes]:
    """Return the head and the body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"GET {path} HTTP/1.1", "Host: b", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.decode(), body


async def test_a_scrape_and_the_checks() -> None:
    chosen = options(metrics_label="env:prod")
    async with serve_metrics(chosen, "127.0.0.1", Many(), CHECKS):
        port = chosen.metrics_prom_exporter_port
        head, body = await get(port)
        assert head.startswith("HTTP/1.1 200")
        assert "text/plain" in head
        assert ("a", (("cluster", "c"), ("env", "prod"), ("n", "0"))) in samples_of(body)
        head, packed = await get(port, "Accept-Encoding: gzip", path="/")
        assert "content-encoding: gzip" in head
        # The values of the process may differ, as its memory does.
        assert samples_of(gzip.decompress(packed)).keys() == samples_of(body).keys()
        assert (await get(port, path="/-/healthy"))[0].startswith("HTTP/1.1 200")
        head, body = await get(port, path="/typo")
        assert head.startswith("HTTP/1.1 404")
        assert b"/metrics" in body


async def test_scrapes_at_the_same_time_share_one_answer() -> None:
    metrics = Many(steps=20, rows=500)
    scrapes = Scrapes(metrics, {}, 10_000)
    first, second = await asyncio.gather(scrapes.write(), scrapes.write())
    assert first == second
    assert metrics.scrapes == 1
    first.clear()
    assert second, "each reader empties a list of its own"
    await scrapes.write()
    assert metrics.scrapes == 2


@pytest.mark.parametrize("rows", [1, 700, 5_000])
async def test_a_long_text_has_parts_of_one_size(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "PART_BYTES", 1_000)
    parts = await Scrapes(Many(rows=rows), {}, 10_000).write()
    assert all(len(part) == 1_000 for part in parts[:-1])
    assert 0 < len(parts[-1]) <= 1_000
    found = samples_of(b"".join(parts))
    assert sum(name == "a" for name, _ in found) == rows


@pytest.mark.parametrize("fails", [False, True])
async def test_cycles_are_collected_after_a_scrape_and_not_in_it(fails: bool) -> None:
    during: list[bool] = []

    class Looking(Many):
        def families(self) -> Iterator[Family | None]:
            during.append(gc.isenabled())
            if fails:
                raise RuntimeError("no")
            yield from super().families()

    scrapes = Scrapes(Looking(), {}, 10_000)
    with nullcontext() if not fails else pytest.raises(RuntimeError):
        await scrapes.write()
    assert (during, gc.isenabled()) == ([False], True)


async def test_what_must_be_read_from_the_device_is_read_in_another_thread() -> None:
    threads: list[threading.Thread] = []

    class Cold(Many):
        def families(self) -> Iterator[Family | ColdRead | None]:
            yield lambda: threads.append(threading.current_thread())
            assert threads
            yield from super().families()

    assert samples_of(b"".join(await Scrapes(Cold(), {}, 10_000).write()))
    assert threads != [threading.main_thread()]


async def test_a_connection_can_ask_again_and_in_advance() -> None:
    chosen = options()
    async with serve_metrics(chosen, "127.0.0.1", Many(), CHECKS):
        port = chosen.metrics_prom_exporter_port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n"
        last = b"GET /-/healthy HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n"
        writer.write(request + request + last)
        answer = await reader.read()
        assert answer.count(b"HTTP/1.1 200") == 3
        assert answer.count(b"# TYPE a gauge") == 2
        writer.close()


async def test_a_scraper_that_goes_away() -> None:
    chosen, metrics = options(), Many(steps=2_000, rows=2_000)
    async with serve_metrics(chosen, "127.0.0.1", metrics, CHECKS):
        port = chosen.metrics_prom_exporter_port
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n")
            await writer.drain()
            writer.close()
        head, _ = await get(port)
        assert head.startswith("HTTP/1.1 200")


async def test_metrics_that_fail_are_one_answer_and_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Many):
        def families(self) -> Iterator[Family | None]:
            raise RuntimeError("no")

    chosen = options()
    async with serve_metrics(chosen, "127.0.0.1", Broken(), CHECKS):
        head, _ = await get(chosen.metrics_prom_exporter_port)
        assert head.startswith("HTTP/1.1 500")
        assert "a page cannot be made" in caplog.text


async def test_a_taken_port_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        chosen = MetricsOptions(
            metrics_exporter_type="2", metrics_prom_exporter_port=taken.getsockname()[1]
        )
        async with serve_metrics(chosen, "127.0.0.1", Many(), CHECKS):
            assert "no metrics" in caplog.text


async def test_nothing_listens_by_default() -> None:
    port = free_port("127.0.0.1")
    chosen = MetricsOptions(metrics_prom_exporter_port=port)
    async with serve_metrics(chosen, "127.0.0.1", Many(), CHECKS):
        with pytest.raises(ConnectionRefusedError):
            await get(port)


async def test_other_work_runs_in_between() -> None:
    """A long scrape is many short turns; the longest is not asserted, machines differ."""
    turns = 0
    done = asyncio.Event()

    async def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    begun = time.monotonic()
    await Scrapes(Many(rows=20_000), {}, 100_000).write()
    steps = (time.monotonic() - begun) * 1_000 / STEP_MS
    done.set()
    await counting
    assert turns > min(steps, 40) / 4
