"""Load of batch requests (code 320, 32 messages each): plain sockets, one frame in flight each.

Prints one JSON line like the C load generator, so that both are read alike.
"""

import argparse
import json
import selectors
import socket
import time
from pathlib import Path

from epochmq.model import batch
from epochmq.model.message import Message
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import encode_frame, request
from epochmq.wire.headers.send_headers import SendHeaderV2

BATCH = 32


def frame(topic: str, queue_id: int, size: int) -> bytes:
    """One request of 32 messages of `size` bytes."""
    messages = [
        Message(topic, b"x" * size, properties={"UNIQ_KEY": f"{number:032X}"})
        for number in range(BATCH)
    ]
    header = SendHeaderV2(
        producerGroup="bench",
        topic=topic,
        defaultTopic="TBW102",
        defaultTopicQueueNums=4,
        queueId=queue_id,
        sysFlag=0,
        bornTimestamp=int(time.time() * 1000),
        flag=0,
        properties="",
        reconsumeTimes=0,
        unitMode=False,
        batch=True,
    )
    return encode_frame(request(RequestCode.SEND_BATCH_MESSAGE, header, batch.encode(messages)))


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of `pid`, to the nanosecond."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


class Client:
    """One connection with one request in flight."""

    def __init__(self, address: tuple[str, int], data: bytes) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = data
        self.pending = b""
        self.sent_at = 0.0

    def send(self) -> None:
        """Begin the next request."""
        self.sent_at = time.perf_counter()
        self.socket.sendall(self.data)

    def answered(self) -> bool | None:
        """True for a success, False for an error, None when the answer is not whole yet."""
        self.pending += self.socket.recv(65536)
        if len(self.pending) < 4:
            return None
        size = int.from_bytes(self.pending[:4], "big") + 4
        if len(self.pending) < size:
            return None
        answer, self.pending = self.pending[:size], self.pending[size:]
        return b'"code":0' in answer


def measure(clients: list[Client], pid: int, warm_s: float, seconds: float) -> dict[str, float]:
    """Figures over `seconds` after `warm_s`."""
    selector = selectors.DefaultSelector()
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.send()
    begin = time.perf_counter() + warm_s
    end = begin + seconds
    answers = errors = 0
    waits: list[float] = []
    cpu = started = 0.0
    while (now := time.perf_counter()) < end:
        if not started and now >= begin:
            started, cpu, answers, waits = now, cpu_s(pid), 0, []
        for key, _ in selector.select(0.1):
            client = key.data
            result = client.answered()
            if result is None:
                continue
            answers += 1
            errors += not result
            waits.append((time.perf_counter() - client.sent_at) * 1e6)
            client.send()
    elapsed = time.perf_counter() - started
    messages = answers * BATCH
    waits.sort()
    return {
        "rate": messages / elapsed,
        "broker_us": (cpu_s(pid) - cpu) * 1e6 / max(messages, 1),
        "p50": waits[len(waits) // 2] if waits else 0,
        "p99": waits[len(waits) * 99 // 100] if waits else 0,
        "err": errors,
        "foreign": 0,
    }


def main() -> None:
    """Parse the arguments that the C generator has too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conns", type=int, default=16)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("-p", "--port", type=int, required=True)
    parser.add_argument("-P", "--pid", type=int, required=True)
    parser.add_argument("-T", "--topic", default="BenchTopic")
    parser.add_argument("-q", "--queues", type=int, default=4)
    parser.add_argument("-w", "--warm", type=float, default=1)
    parser.add_argument("-d", "--duration", type=float, default=3)
    args = parser.parse_args()
    frames = [frame(args.topic, queue, args.size) for queue in range(args.queues)]
    address = ("127.0.0.1", args.port)
    clients = [Client(address, frames[n % args.queues]) for n in range(args.conns)]
    print(json.dumps(measure(clients, args.pid, args.warm, args.duration)))


if __name__ == "__main__":
    main()
