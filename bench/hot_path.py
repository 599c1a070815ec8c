"""Sends and pulls without sockets: what a request costs between the receive buffer and the write.

`python -m bench.hot_path send --conns 64`, `... batch`, `... pull`. Real store and real disk; the
loop and the kernel's TCP left out. User and system time apart, since the page cache is the
kernel's. On a busy machine count instead: `--bytecodes` gives the executed Python bytecodes of each
function; for native code, take the difference of `--turns 100` and `--turns 300` under
`valgrind --tool=callgrind`.
"""

import argparse
import asyncio
import cProfile
import pstats
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

from bench.batch_load import BATCH
from bench.batch_load import frame as batch_frame
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.store_keys import store_options
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.server.broker_sink import BrokerSink
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.host import pack
from epochmq.model.topic import TopicConfig
from epochmq.runtime.connection import Connection
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.turn import Turn
from epochmq.store.store import Store
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import encode_frame, request
from epochmq.wire.headers.pull_headers import SUBSCRIPTION, PullHeader
from epochmq.wire.headers.send_headers import SendHeaderV2

TOPIC = "BenchTopic"
GROUP = "CID_BENCH"
QUEUES = 4
TICK_MS = 100
PULL_COUNT = 32
PULLED_MESSAGES = 9_600
"""Messages of each queue that pulls read, again and again."""


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


def pull_frame(queue_id: int, offset: int) -> bytes:
    """What bench/loadgen.c sends."""
    header = PullHeader(
        consumerGroup=GROUP,
        topic=TOPIC,
        queueId=queue_id,
        queueOffset=offset,
        maxMsgNums=PULL_COUNT,
        sysFlag=SUBSCRIPTION,
        commitOffset=0,
        suspendTimeoutMillis=0,
        subscription="*",
        subVersion=0,
        expressionType="TAG",
    )
    return encode_frame(request(RequestCode.PULL_MESSAGE, header))


class Bytecodes:
    """Counts the Python bytecodes that are executed, by function."""

    def __init__(self) -> None:
        self._counts: Counter[CodeType] = Counter()

    def __enter__(self) -> None:
        sys.settrace(self._enter)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode":
            self._counts[frame.f_code] += 1
        return self._step

    def report(self, requests: int) -> str:
        """The count for each of `requests`, and of the functions with most."""
        ours = [each for each in self._counts.items() if each[0].co_filename != __file__]
        lines = [f"{sum(count for _, count in ours) / requests:.0f} bytecodes a request"]
        for code, count in sorted(ours, key=lambda each: -each[1])[:25]:
            path = "/".join(Path(code.co_filename).parts[-3:])
            lines.append(f"{count / requests:8.1f} {path}:{code.co_firstlineno} {code.co_name}")
        return "\n".join(lines)


def broker(root: str) -> BrokerSink:
    """A broker without a service around it."""
    options = BrokerOptions(broker_name="b", broker_ip1="127.0.0.1", memory_window_bytes=1 << 30)
    disk, clock = RealDisk(root), Clock()
    store = Store.open(disk, store_options(options), pack("127.0.0.1", 10911), clock.wall_ms())
    node = BrokerContext(options, clock=clock, disk=disk, store=store, port=10911)
    node.topics.put(TopicConfig(TOPIC, QUEUES, QUEUES), clock.wall_ms())
    node.groups.put(SubscriptionGroupConfig(GROUP), clock.wall_ms())
    return BrokerSink(node)


async def drive(
    sink: BrokerSink, args: argparse.Namespace, bytecodes: Bytecodes
) -> tuple[int, float, float]:
    """(messages, user seconds, system seconds) of `args.seconds` of turns."""
    turn = Turn()
    owner: Any = SimpleNamespace(
        sink=sink, fast_port=False, unsent_bytes_max=1 << 26, header_bytes_max=65536, unsent=None,
        half_frames=None, made=lambda _c: None, slowed=lambda _c, _s: None,
        gone=lambda _c, _r: None,
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    connections = [Connection(loop, turn, owner) for _ in range(args.conns)]
    for number, connection in enumerate(connections):
        connection.connection_made(Sunk(number))  # type: ignore[arg-type]
    store, clock = sink.node.store, sink.node.clock

    async def a_turn(reads: list[bytes]) -> None:
        for connection, data in zip(connections, reads, strict=True):
            turn.buffer[: len(data)] = data  # this copy is the kernel's in real life
            connection.buffer_updated(len(data))
        await asyncio.sleep(0)

    if args.kind == "pull":
        sends = [single_frame(number % QUEUES, args.size) * 16 for number in range(args.conns)]
        last = min(args.conns, QUEUES) - 1
        while store.queue_bounds(TOPIC, last)[1] < PULLED_MESSAGES:
            await a_turn(sends)
    data_of = requests_of(args)
    await a_turn([data_of(number) for number in range(args.conns)])
    messages = {"send": 1, "batch": BATCH, "pull": PULL_COUNT}[args.kind]
    messages *= args.outstanding * args.conns
    done, tick_at = 0, 0
    before = resource.getrusage(resource.RUSAGE_SELF)
    end = time.monotonic() + args.seconds
    while time.monotonic() < end if args.turns is None else done < messages * args.turns:
        reads = [data_of(number) for number in range(args.conns)]
        with bytecodes if args.bytecodes else nullcontext():
            await a_turn(reads)
        done += messages
        if (now := clock.now_ms()) >= tick_at:
            tick_at = now + TICK_MS
            store.tick(now, clock.wall_ms())
            store.chores.run_all()
    after = resource.getrusage(resource.RUSAGE_SELF)
    sunk: Any = connections[0]._transport
    if b'"code":0' not in sunk.last:
        raise SystemExit(f"refused: {sunk.last!r}")
    return done, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def requests_of(args: argparse.Namespace) -> Callable[[int], bytes]:
    """Return the function that makes the requests of one read, from a connection's number."""
    if args.kind != "pull":
        make = single_frame if args.kind == "send" else partial(batch_frame, TOPIC)
        frames = [make(number % QUEUES, args.size) for number in range(args.conns)]
        return lambda number: frames[number] * args.outstanding
    offsets = [0] * args.conns

    def pulls(number: int) -> bytes:
        data = b""
        for _ in range(args.outstanding):
            data += pull_frame(number % QUEUES, offsets[number])
            offsets[number] = (offsets[number] + PULL_COUNT) % PULLED_MESSAGES
        return data

    return pulls


def main() -> None:
    """Measure one kind of load."""
    parser = argparse.ArgumentParser(prog="python -m bench.hot_path", description=__doc__)
    parser.add_argument("kind", choices=["send", "batch", "pull"])
    parser.add_argument("--conns", type=int, default=16)
    parser.add_argument("--outstanding", type=int, default=1)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--turns", type=int, help="instead of seconds, to count instructions")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--bytecodes", action="store_true", help="count them; needs --turns")
    args = parser.parse_args()
    if args.bytecodes and args.turns is None:
        parser.error("--bytecodes is slow: say how many --turns, for example 100")
    root = tempfile.mkdtemp(prefix="bench-hot-")
    profile, bytecodes = cProfile.Profile(), Bytecodes()
    try:
        sink = broker(root)
        if args.profile:
            profile.enable()
        done, user, system = asyncio.run(drive(sink, args, bytecodes))
        profile.disable()
        sink.node.store.close(sink.node.clock.wall_ms())
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(
        f"{args.kind} {args.conns} x {args.outstanding}: {done} messages,"
        f" {user / done * 1e6:.2f} us user, {system / done * 1e6:.2f} us system a message"
    )
    if args.bytecodes:
        print(bytecodes.report(args.turns * args.conns * args.outstanding))
    if args.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
