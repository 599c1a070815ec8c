"""What one scrape of the metrics in each second costs a broker under sends of 16 x 16."""

import http.client
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

from tests.compat.peers.cluster import Cluster

from bench import load, peers, rows, throughput
from bench.load import Figures
from epochmq.runtime.own_host import free_port

ROW = rows.Row("send 16 x 16", "send", 16, 16)
EVERY_S = 1.0
WARM_UP_S = {"epochmq": 4.0, "java": 25.0}


def table(kinds: list[str], runs: int, seconds: float) -> str:
    """Measure with and without scrapes in turn, `runs` times each; a Markdown table of medians."""
    root = Path(tempfile.mkdtemp(prefix="bench-"))
    made: dict[str, tuple[Cluster, int]] = {}
    figures: dict[tuple[str, bool], list[Figures]] = {}
    try:
        for kind in kinds:
            port = free_port("127.0.0.1")
            metrics = {"metricsExporterType": "PROM", "metricsPromExporterPort": port}
            metrics["metricsPromExporterHost"] = "127.0.0.1"
            cluster = peers.make(kind, root / kind, False, **metrics).start()
            made[kind] = cluster, port
            load.run(
                ROW, cluster.broker_port, cluster.broker.pid, warm_s=0, seconds=WARM_UP_S[kind]
            )
            peers.pause(cluster)
        for number in range(runs):
            order = (False, True) if number % 2 else (True, False)
            for kind, (cluster, port) in made.items():
                peers.resume(cluster)
                for scraped in order:
                    peers.free_page_cache()
                    time.sleep(throughput.SETTLE_S)
                    with _scraping(port) if scraped else nullcontext():
                        one = load.run(
                            ROW,
                            cluster.broker_port,
                            cluster.broker.pid,
                            warm_s=1,
                            seconds=seconds,
                        )
                    figures.setdefault((kind, scraped), []).append(one)
                    print(f"{kind} scraped={scraped} {one.rate:.0f}/s {one.cpu_us:.2f} us")
                peers.pause(cluster)
    finally:
        for cluster, _ in made.values():
            peers.resume(cluster)
            cluster.stop()
        shutil.rmtree(root, ignore_errors=True)
    return _table(kinds, figures)


@contextmanager
def _scraping(port: int) -> Iterator[None]:
    """Read the page of metrics at `port` each second, in a thread of this process."""
    ended = threading.Event()
    sizes: list[int] = []

    def scrape() -> None:
        while not ended.wait(EVERY_S):
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            line.request("GET", "/metrics")
            answer = line.getresponse()
            sizes.append(len(answer.read()) if answer.status == http.client.OK else 0)
            line.close()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if not sizes or not all(sizes):
        raise SystemExit(f"the broker did not answer every scrape of port {port}")


def _table(kinds: list[str], figures: dict[tuple[str, bool], list[Figures]]) -> str:
    """Each ratio is the median of those of runs that followed each other: the machine drifts."""
    heads = ("broker", "msg/s", "msg/s, scraped", "ratio", "CPU us", "CPU us, scraped", "ratio")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for kind in kinds:
        pairs = list(zip(figures[kind, False], figures[kind, True], strict=True))
        rates = [median(one.rate for one in each) for each in zip(*pairs, strict=True)]
        costs = [median(one.cpu_us for one in each) for each in zip(*pairs, strict=True)]
        rate = median(scraped.rate / plain.rate for plain, scraped in pairs)
        cost = median(scraped.cpu_us / plain.cpu_us for plain, scraped in pairs)
        lines.append(
            f"| {kind} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rate:.3f} |"
            f" {costs[0]:.2f} | {costs[1]:.2f} | {cost:.3f} |"
        )
    return "\n".join(lines)
