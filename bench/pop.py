"""POP: messages received and acknowledged a second; ours and Java's in turn.

Connections speak the protocol as Java's POP consumer does: a pop of up to 32 messages of all
queues, an acknowledgement for each of them, the next pop once all are answered. What is counted is
what was acknowledged with SUCCESS.
"""

import asyncio
import time
from dataclasses import dataclass
from statistics import median

import msgspec
from tests.compat.peers import admin
from tests.compat.peers.cluster import Cluster

from bench import batch_load, peers
from bench.plain_frames import framed, frames, header
from epochmq.wire.codes import RequestCode

QUEUES = 4
COUNT = 32
INVISIBLE_MS = 60_000
POLL_MS = 500
SETTLE_S = 2.0
CONNS = (1, 16)
PER_S = 60_000
"""Messages that are there for each second of a run; more than any broker gave."""
_SUCCESS = b'"code":0,'
_POP = header(
    RequestCode.POP_MESSAGE,
    f'"consumerGroup":"%b","topic":"%b","queueId":"-1","maxMsgNums":"{COUNT}",'
    f'"invisibleTime":"{INVISIBLE_MS}","pollTime":"{POLL_MS}","bornTime":"%d","initMode":"0"',
)
_ACK = header(
    RequestCode.ACK_MESSAGE,
    '"consumerGroup":"%b","topic":"%b","queueId":"%b","extraInfo":"%b %b","offset":"%b"',
)


@dataclass(frozen=True)
class Figures:
    """Messages a second, and the broker's CPU for one in microseconds."""

    rate: float
    cpu_us: float
    refused: int


class Consumer(asyncio.Protocol):
    """One member's connection; pops and acknowledges until it is told to stop."""

    def __init__(self, topic: str, group: str, broker_name: str) -> None:
        self._topic, self._group, self._broker = topic, group, broker_name
        self._data = bytearray()
        self._left = 0
        self.acked = self.refused = 0
        self.stopped = False
        self.transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        self.transport.write(self._pop())

    def data_received(self, data: bytes) -> None:
        self._data += data
        out: list[bytes] = []
        for frame in frames(self._data):
            if _SUCCESS in frame and self._left:
                self.acked += 1
                self._left -= 1
                if not self._left and not self.stopped:
                    out.append(self._pop())
            else:
                size = int.from_bytes(frame[1:4], "big")
                out += self._answered(msgspec.json.decode(frame[4 : 4 + size]))
        if out:
            self.transport.write(b"".join(out))

    def _answered(self, header: dict[str, object]) -> list[bytes]:
        fields = header.get("extFields") or {}
        assert isinstance(fields, dict)
        if header["code"] == 0 and "msgOffsetInfo" in fields:
            return self._acks(fields)
        if not self._left:
            return [] if self.stopped else [self._pop()]
        self._left -= 1
        self.acked += header["code"] == 0
        self.refused += header["code"] != 0
        return [self._pop()] if not self._left and not self.stopped else []

    def _acks(self, fields: dict[str, str]) -> list[bytes]:
        starts = {}
        for entry in fields["startOffsetInfo"].split(";"):
            mark, queue_id, start = entry.split(" ")
            starts[mark, queue_id] = start
        out = []
        for entry in fields["msgOffsetInfo"].split(";"):
            mark, queue_id, offsets = entry.split(" ")
            topic = self._topic if mark == "0" else f"%RETRY%{self._group}_{self._topic}"
            handle = (
                f"{starts[mark, queue_id]} {fields['popTime']} {fields['invisibleTime']}"
                f" {fields['reviveQid']} {mark} {self._broker} {queue_id}"
            )
            out += [_ack(self._group, topic, queue_id, handle, at) for at in offsets.split(",")]
        self._left = len(out)
        return out

    def _pop(self) -> bytes:
        now = time.time_ns() // 1_000_000
        return framed(_POP % (self._group.encode(), self._topic.encode(), now, 0))


def _ack(group: str, topic: str, queue_id: str, handle: str, offset: str) -> bytes:
    fields = (group, topic, queue_id, handle, offset, offset)
    return framed(_ACK % (*(field.encode() for field in fields), 0))


def fill(cluster: Cluster, topic: str, messages: int) -> None:
    """So many messages of 1 KiB, in batches."""
    client = batch_load.Client(("127.0.0.1", cluster.broker_port), b"")
    for number in range(messages // batch_load.BATCH):
        client.data = batch_load.frame(topic, number % QUEUES, 1024)
        client.send()
        while (stored := client.answered()) is None:
            pass
        if not stored:
            raise SystemExit("the broker refused a batch")
    client.socket.close()


async def _drive(
    cluster: Cluster, topic: str, group: str, conns: int, seconds: float
) -> tuple[int, int]:
    loop = asyncio.get_running_loop()
    made = [
        (
            await loop.create_connection(
                lambda: Consumer(topic, group, "broker-a"), "127.0.0.1", cluster.broker_port
            )
        )[1]
        for _ in range(conns)
    ]
    await asyncio.sleep(seconds)
    for one in made:
        one.stopped = True
    await asyncio.sleep(POLL_MS / 1000 + 0.2)
    for one in made:
        one.transport.close()
    return sum(one.acked for one in made), sum(one.refused for one in made)


def run(cluster: Cluster, topic: str, group: str, conns: int, seconds: float) -> Figures:
    """One run of a group that begins at the topic's first message."""
    cpu = cluster.broker.cpu_seconds()
    acked, refused = asyncio.run(_drive(cluster, topic, group, conns, seconds))
    if not acked:
        raise SystemExit("nothing was received")
    used = cluster.broker.cpu_seconds() - cpu
    return Figures(acked / seconds, used * 1e6 / acked, refused)


def table(kinds: list[str], runs: int, seconds: float) -> str:
    """A Markdown table: medians of `runs`, the brokers in turn."""
    figures: dict[tuple[int, str], list[Figures]] = {}
    per_run = int(PER_S * seconds)
    with peers.clusters(kinds, sync_flush=False) as made:
        for kind, cluster in made.items():
            topic = admin.create_topic(cluster.broker_addr, "BenchPop", QUEUES)
            fill(cluster, topic, per_run)
            group = admin.set_group(cluster.broker_addr, "warm", 16)
            run(cluster, topic, group, 16, 15.0 if kind == "java" else 2.0)
            peers.pause(cluster)
        for conns in CONNS:
            for number in range(runs):
                for kind, cluster in made.items():
                    peers.resume(cluster)
                    time.sleep(SETTLE_S)
                    group = admin.set_group(cluster.broker_addr, f"G{conns}n{number}", 16)
                    one = run(cluster, "BenchPop", group, conns, seconds)
                    peers.pause(cluster)
                    figures.setdefault((conns, kind), []).append(one)
                    print(f"pop {conns:3} {kind:8} {one.rate:8.0f}/s {one.cpu_us:8.1f} us",
                          flush=True)  # fmt: skip
    lines = [
        "| consumers | broker | messages/s | broker CPU us | refused |",
        "|---|---|---|---|---|",
    ]
    for (conns, kind), many in figures.items():
        rate, cpu = median(one.rate for one in many), median(one.cpu_us for one in many)
        refused = sum(one.refused for one in many)
        lines.append(f"| {conns} | {kind} | {rate:,.0f} | {cpu:.1f} | {refused} |")
    return "\n".join(lines)
