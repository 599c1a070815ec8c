"""The send path without sockets: what a message costs between the receive buffer and the write.

`python -m bench.hot_path send --conns 64`, `... batch`. Real store and real disk, the loop and the
kernel's TCP left out. User and system time apart, since the page cache is the kernel's. On a busy
machine count instructions: the difference of `--turns 100` and `--turns 300` under
`valgrind --tool=callgrind`.
"""

import argparse
import asyncio
import cProfile
import pstats
import resource
import shutil
import tempfile
import time
from types import SimpleNamespace
from typing import Any

from bench.batch_load import BATCH
from bench.batch_load import frame as batch_frame
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.store_keys import store_options
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.server.broker_sink import BrokerSink
from epochmq.model.host import pack
from epochmq.model.topic import TopicConfig
from epochmq.runtime.connection import Connection
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.turn import Turn
from epochmq.store.store import Store
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import encode_frame, request
from epochmq.wire.headers.send_headers import SendHeaderV2

TOPIC = "BenchTopic"
QUEUES = 4
TICK_MS = 100


class Clock:
    """The real clocks."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Sunk:
    """A transport that takes everything."""

    def __init__(self, number: int) -> None:
        self.peer = ("127.0.0.1", 40_000 + number)
        self.bytes = 0
        self.last = b""

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """There is no buffer."""

    def get_extra_info(self, name: str) -> Any:
        return self.peer

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.bytes += len(data)
        self.last = data


def single_frame(queue_id: int, size: int) -> bytes:
    """What bench/loadgen.c sends."""
    header = SendHeaderV2(
        producerGroup="PID_BENCH",
        topic=TOPIC,
        defaultTopic="TBW102",
        defaultTopicQueueNums=4,
        queueId=queue_id,
        sysFlag=0,
        bornTimestamp=1_700_000_000_000,
        flag=0,
        properties=f"UNIQ_KEY\x01{queue_id:032d}\x02WAIT\x01true\x02TAGS\x01TagA",
        reconsumeTimes=0,
        unitMode=False,
        batch=False,
    )
    return encode_frame(request(RequestCode.SEND_MESSAGE_V2, header, b"x" * size))


def broker(root: str) -> BrokerSink:
    """A broker without a service around it."""
    options = BrokerOptions(broker_name="b", broker_ip1="127.0.0.1")
    disk, clock = RealDisk(root), Clock()
    store = Store.open(disk, store_options(options), pack("127.0.0.1", 10911), clock.wall_ms())
    node = BrokerContext(options, clock=clock, disk=disk, store=store, port=10911)
    node.topics.put(TopicConfig(TOPIC, QUEUES, QUEUES), clock.wall_ms())
    return BrokerSink(node)


async def drive(sink: BrokerSink, args: argparse.Namespace) -> tuple[int, float, float]:
    """(messages, user seconds, system seconds) of `args.seconds` of turns."""
    turn = Turn()
    owner: Any = SimpleNamespace(
        sink=sink, fast_port=False, unsent_bytes_max=1 << 26, header_bytes_max=65536, unsent=None,
        half_frames=None, made=lambda _c: None, slowed=lambda _c, _s: None,
        gone=lambda _c, _r: None,
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    frames = []
    for number in range(args.conns):
        connection = Connection(loop, turn, owner)
        connection.connection_made(Sunk(number))  # type: ignore[arg-type]
        queue_id = number % QUEUES
        one = single_frame(queue_id, args.size)
        data = batch_frame(TOPIC, queue_id, args.size) if args.kind == "batch" else one
        frames.append((connection, data * args.outstanding))
    store, clock = sink.node.store, sink.node.clock
    messages = (BATCH if args.kind == "batch" else 1) * args.outstanding * args.conns
    done, tick_at = 0, 0
    before = resource.getrusage(resource.RUSAGE_SELF)
    end = time.monotonic() + args.seconds
    while time.monotonic() < end if args.turns is None else done < messages * args.turns:
        for connection, data in frames:
            size = len(data)
            turn.buffer[:size] = data  # this copy is the kernel's in real life
            connection.buffer_updated(size)
        await asyncio.sleep(0)
        done += messages
        if (now := clock.now_ms()) >= tick_at:
            tick_at = now + TICK_MS
            store.tick(now, clock.wall_ms())
            store.chores.run_all()
    after = resource.getrusage(resource.RUSAGE_SELF)
    sunk: Any = frames[0][0]._transport
    if b'"code":0' not in sunk.last:
        raise SystemExit(f"not stored: {sunk.last!r}")
    return done, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def main() -> None:
    """Measure one kind of load."""
    parser = argparse.ArgumentParser(prog="python -m bench.hot_path", description=__doc__)
    parser.add_argument("kind", choices=["send", "batch"])
    parser.add_argument("--conns", type=int, default=16)
    parser.add_argument("--outstanding", type=int, default=1)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--turns", type=int, help="instead of seconds, to count instructions")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    root = tempfile.mkdtemp(prefix="bench-hot-")
    profile = cProfile.Profile()
    try:
        sink = broker(root)
        if args.profile:
            profile.enable()
        done, user, system = asyncio.run(drive(sink, args))
        profile.disable()
        sink.node.store.close(sink.node.clock.wall_ms())
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(
        f"{args.kind} {args.conns} x {args.outstanding}: {done} messages,"
        f" {user / done * 1e6:.2f} us user, {system / done * 1e6:.2f} us system a message"
    )
    if args.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
