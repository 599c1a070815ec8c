"""Python clients side by side: `python -m bench.python_clients [--seconds S] [--runs N]`.

Ours, the C++ client's wheel, and RocketMQ's gRPC client by its proxy, on our broker; aiokafka on
one node of Apache Kafka. All servers run for the whole time; those that are not measured are
stopped by a signal. Each client is a process with one thread of Python and sends bodies of 1 KiB to
one topic of four queues. The CPU is that of the client's process. A client that cannot be
installed, or a server that cannot be had, is said.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.compat.drivers import build
from tests.compat.peers.cache import UnavailableError, built, run_tool
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.kafka import Kafka
from tests.compat.peers.proxy import Proxy

from bench import peers
from epochmq.client.sync import PullConsumer

ACTIONS = ("singly", "in-flight", "in-flight-unbatched", "batched", "consumed")
NOT_OFFERED = {
    *((client, "in-flight-unbatched") for client in ("cpp", "grpc", "aiokafka")),
    *((client, "batched") for client in ("cpp", "grpc")),
}
"""aiokafka always batches what waits; the clients of RocketMQ never do."""
AIOKAFKA = "0.14.0"
TOPIC = "Bench"
QUEUES = 4
TIMEOUT_S = 180.0
FILL_S = 10.0
"""So long each topic is filled before it is consumed."""
LOAD = Path(__file__).with_name("python_client_load.py")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Client:
    """One client: its Python, and the address of its servers."""

    name: str
    python: Path
    address: str


def aiokafka_python() -> Path:
    """Return the Python of an environment with aiokafka."""

    def make(part: Path) -> None:
        run_tool([sys.executable, "-m", "venv", part])
        packages = [f"aiokafka=={AIOKAFKA}", "uvloop"]
        run_tool([part / "bin" / "python", "-m", "pip", "install", "-q", *packages])

    return built(f"bench-aiokafka-{AIOKAFKA}", make) / "bin" / "python"


def run(client: Client, action: str, seconds: float, namesrv: str) -> tuple[float, float]:
    """Return messages a second and microseconds of CPU a message."""
    group = f"bench-{time.monotonic_ns()}"
    if action == "consumed" and client.name != "aiokafka":
        start_at_first(namesrv, group)
    command = [client.python, LOAD, client.name, action, client.address, TOPIC, str(seconds), group]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": home},
            check=True,
        )
    figures = json.loads(done.stdout.splitlines()[-1])
    return figures["rate"], figures["cpu_us"]


def start_at_first(namesrv: str, group: str) -> None:
    """Let `group` begin with the first messages: the C++ client has no option for that."""
    with PullConsumer(namesrv, group) as consumer:
        for queue in consumer.queues(TOPIC):
            consumer.commit(queue, 0)


@dataclass
class Servers:
    """The servers of all clients; what is missing could not be had."""

    ours: EpochCluster
    kafka: Kafka | None = None
    proxy: Proxy | None = None

    def run_for(self, client: str) -> None:
        """Let the servers of one client run, and stop the others by a signal."""
        for server, user in ((self.kafka, "aiokafka"), (self.proxy, "grpc")):
            if server is not None:
                is_used = client == user
                os.kill(server.process.pid, signal.SIGCONT if is_used else signal.SIGSTOP)
        if client == "aiokafka":
            peers.pause(self.ours)
        else:
            peers.resume(self.ours)

    def stop(self) -> None:
        """Stop Kafka and the proxy."""
        for server in (self.kafka, self.proxy):
            if server is not None:
                server.stop()
        peers.resume(self.ours)


def main() -> None:
    """Measure all clients and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--runs", type=int, default=3, help="of which the median is shown")
    parser.add_argument("--actions", nargs="+", choices=ACTIONS, default=ACTIONS)
    chosen = parser.parse_args()
    with peers.clusters(["epochmq"], sync_flush=False) as made:
        ours = made["epochmq"]
        assert isinstance(ours, EpochCluster)
        servers = Servers(ours)
        clients = [Client("epochmq", Path(sys.executable), ours.namesrv_addr)]
        try:
            clients.append(
                Client("cpp", build.cpp_environment() / "bin" / "python", ours.namesrv_addr)
            )
        except UnavailableError as missing:
            print(f"SKIPPED: the C++ client: {missing}")
        try:
            servers.kafka = Kafka().start()
            servers.kafka.create_topic(TOPIC, QUEUES)
            clients.append(Client("aiokafka", aiokafka_python(), servers.kafka.address))
        except UnavailableError as missing:
            print(f"SKIPPED: aiokafka and Kafka: {missing}")
        try:
            servers.proxy = Proxy(ours.namesrv_addr).start()
            clients.append(
                Client("grpc", build.grpc_environment() / "bin" / "python", servers.proxy.address)
            )
        except UnavailableError as missing:
            print(f"SKIPPED: the gRPC client and RocketMQ's proxy: {missing}")
        try:
            print("| client | sends or messages | /s | CPU us |\n|---|---|---|---|", flush=True)
            for action in chosen.actions:
                for client in clients:
                    if (client.name, action) in NOT_OFFERED:
                        continue
                    servers.run_for(client.name)
                    if action == "consumed" and client.name in ("epochmq", "aiokafka"):
                        run(
                            client, "batched", FILL_S, ours.namesrv_addr
                        )  # the others read what ours sent
                    try:
                        found = [
                            run(client, action, chosen.seconds, ours.namesrv_addr)
                            for _ in range(chosen.runs)
                        ]
                    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                        print(f"| {client.name} | {action} | failed: {error.stderr!r:.300} | |")
                        continue
                    rate, cpu_us = (median(each) for each in zip(*found, strict=True))
                    print(f"| {client.name} | {action} | {rate:,.0f} | {cpu_us:.1f} |", flush=True)
        finally:
            servers.stop()


if __name__ == "__main__":
    main()
