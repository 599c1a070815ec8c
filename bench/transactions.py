"""Transactions a second: half message, answer, commit one-way, visible; ours and Java's in turn.

Connections speak the protocol as Java's producer does: a half message by 310, and on its answer an
END_TRANSACTION that wants none. What is counted is what became visible, and it must be all of it.
"""

import asyncio
import re
import time
from dataclasses import dataclass
from statistics import median

from tests.compat.peers import admin
from tests.compat.peers.cluster import Cluster
from tests.compat.peers.records import bound

from bench import peers
from bench.plain_frames import framed, frames, header
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import FLAG_ONEWAY
from epochmq.wire.headers.send_headers import COMMIT

TOPIC = "BenchTransactions"
GROUP = "PG_bench"
QUEUES = 4
PREPARED = 4
SETTLE_S = 2.0
VISIBLE_S = 30.0
_ANSWER = re.compile(rb'"msgId":"([0-9A-F]+)"|"queueOffset":"?(\d+)"?|"transactionId":"([^"]+)"')
_HALF = header(
    RequestCode.SEND_MESSAGE_V2,
    f'"a":"{GROUP}","b":"{TOPIC}","c":"TBW102","d":"{QUEUES}","e":"%d","f":"{PREPARED}",'
    '"g":"%d","h":"0","i":"UNIQ_KEY\\u0001%08X%024X\\u0002TRAN_MSG\\u0001true\\u0002'
    f'PGROUP\\u0001{GROUP}\\u0002WAIT\\u0001true"',
)
"""Queue, born at, connection and message (its unique key)."""
_END = header(
    RequestCode.END_TRANSACTION,
    f'"producerGroup":"{GROUP}","tranStateTableOffset":"%b","commitLogOffset":"%d",'
    f'"commitOrRollback":"{COMMIT}","msgId":"%b","transactionId":"%b"',
    flag=FLAG_ONEWAY,
)
"""Queue offset, position and twice the transaction's id."""


@dataclass(frozen=True)
class Load:
    """So many connections with so many transactions each at a time."""

    conns: int
    outstanding: int
    size: int = 1024

    @property
    def name(self) -> str:
        return f"transactions {self.conns} x {self.outstanding}"


LOADS = (Load(16, 1), Load(16, 16))


@dataclass(frozen=True)
class Figures:
    """Transactions a second, and the broker's CPU for one in microseconds."""

    rate: float
    cpu_us: float
    refused: int


class Connection(asyncio.Protocol):
    """One producer's connection; keeps its transactions going until it is told to stop."""

    def __init__(self, number: int, load: Load) -> None:
        self._number = number
        self._load = load
        self._body = bytes(load.size)
        self._data = bytearray()
        self._sent = 0
        self.ended = self.refused = 0
        self.stopped = False
        self.transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        self.transport.write(b"".join(self._half() for _ in range(self._load.outstanding)))

    def data_received(self, data: bytes) -> None:
        self._data += data
        out: list[bytes] = []
        for frame in frames(self._data):
            out += self._answered(frame)
        self.transport.write(b"".join(out))

    def _answered(self, frame: bytes) -> list[bytes]:
        found = {at: text for m in _ANSWER.finditer(frame) for at, text in enumerate(m.groups())
                 if text}  # fmt: skip
        out = []
        if len(found) == 3:
            self.ended += 1
            out.append(framed(_END % (found[1], int(found[0][-16:], 16), found[2], found[2], 0)))
        else:
            self.refused += 1
        if not self.stopped:
            out.append(self._half())
        return out

    def _half(self) -> bytes:
        self._sent += 1
        now = time.time_ns() // 1_000_000
        head = _HALF % (self._sent % QUEUES, now, self._number, self._sent, self._sent)
        return framed(head, self._body)


async def _drive(port: int, load: Load, seconds: float) -> tuple[int, int]:
    loop = asyncio.get_running_loop()
    made = [
        (await loop.create_connection(lambda n=n: Connection(n, load), "127.0.0.1", port))[1]
        for n in range(load.conns)
    ]
    await asyncio.sleep(seconds)
    for one in made:
        one.stopped = True
    await asyncio.sleep(0.5)
    for one in made:
        one.transport.close()
    return sum(one.ended for one in made), sum(one.refused for one in made)


def _visible(cluster: Cluster) -> int:
    return sum(bound(cluster.broker_addr, TOPIC, n) for n in range(QUEUES))


def run(cluster: Cluster, load: Load, seconds: float) -> Figures:
    """One run; `SystemExit` when what was committed did not become visible."""
    before, cpu = _visible(cluster), cluster.broker.cpu_seconds()
    began = time.monotonic()
    ended, refused = asyncio.run(_drive(cluster.broker_port, load, seconds))
    deadline = time.monotonic() + VISIBLE_S
    while (seen := _visible(cluster) - before) < ended and time.monotonic() < deadline:
        time.sleep(0.05)
    took = time.monotonic() - began
    if seen != ended:
        raise SystemExit(f"{ended} transactions were committed, {seen} messages are visible")
    return Figures(ended / took, (cluster.broker.cpu_seconds() - cpu) * 1e6 / ended, refused)


def table(kinds: list[str], runs: int, seconds: float) -> str:
    """A Markdown table: medians of `runs`, the brokers in turn."""
    figures: dict[tuple[str, str], list[Figures]] = {}
    with peers.clusters(kinds, sync_flush=False) as made:
        for kind, cluster in made.items():
            admin.create_topic(cluster.broker_addr, TOPIC)
            run(cluster, LOADS[0], 15.0 if kind == "java" else 2.0)
            peers.pause(cluster)
        for load in LOADS:
            for _ in range(runs):
                for kind, cluster in made.items():
                    peers.resume(cluster)
                    time.sleep(SETTLE_S)
                    one = run(cluster, load, seconds)
                    peers.pause(cluster)
                    figures.setdefault((load.name, kind), []).append(one)
                    print(f"{load.name:24} {kind:8} {one.rate:8.0f}/s {one.cpu_us:8.1f} us",
                          flush=True)  # fmt: skip
    lines = ["| row | broker | transactions/s | broker CPU us | refused |", "|---|---|---|---|---|"]
    for (name, kind), many in figures.items():
        rate, cpu = median(one.rate for one in many), median(one.cpu_us for one in many)
        refused = sum(one.refused for one in many)
        lines.append(f"| {name} | {kind} | {rate:,.0f} | {cpu:.1f} | {refused} |")
    return "\n".join(lines)
