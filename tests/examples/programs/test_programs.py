"""The programs that the documentation includes: each runs, alone, and says what the page says."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread

import pytest

from epochmq.testing.mini_cluster import MiniCluster

EXAMPLES = Path(__file__).parents[3] / "examples"
PROGRAMS = {
    "howto/delay.py": ["tea is ready after 2 seconds or more"],
    "howto/filters.py": ["it is hot in Cairo"],
    "howto/in_order.py": ["anna created", "anna paid", "anna shipped"],
    "howto/two_teams.py": ["orders: an order of team green"],
    "howto/many_sends.py": ["10000 messages are stored"],
    "howto/read_again.py": ["sent since then: after"],
    "howto/ask_a_service.py": ["12 times 12 is 144"],
    "howto/give_up.py": ["attempt 1", "attempt 2"],
    "howto/transaction.py": ["too large: ROLLBACK", "order 1: COMMIT", "the warehouse got order 1"],
    "coming_from/instead_of_kafka.py": ["anna paid 10", "anna paid 20", "anna paid 30"],
    "coming_from/instead_of_rabbitmq.py": ["resized cat.png", "resized dog.png"],
    "coming_from/instead_of_nats.py": ["billed order 1", "tea costs 42"],
    "coming_from/instead_of_java.py": ["SEND_OK", "billed order 1"],
    "tutorial/send_orders.py": ["order 1: SEND_OK in queue", "order 10: SEND_OK in queue"],
}
"""What each program prints; lines of one program come in this order."""
OTHERS = {"aiokafka_program.py", "aio_pika_program.py", "nats_program.py"}
"""Programs for other systems; tests/compat/test_other_systems.py runs them."""


@pytest.fixture
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster() as running:
        yield running


def environment(cluster: MiniCluster) -> dict[str, str]:
    return {**os.environ, "NAMESRV_ADDR": cluster.namesrv}


@contextmanager
def ticking(cluster: MiniCluster) -> Iterator[None]:
    """Let the clock of the servers run fast, so that pauses before retries are short."""
    stop = Event()

    def tick() -> None:
        while not stop.wait(0.2):
            cluster.advance_clock(10)

    thread = Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs(cluster: MiniCluster, name: str) -> None:
    with ticking(cluster) if name == "howto/give_up.py" else nullcontext():
        done = subprocess.run(
            [sys.executable, EXAMPLES / name],
            env=environment(cluster),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, "")
    place = 0
    for text in PROGRAMS[name]:
        assert text in done.stdout[place:], done.stdout
        place = done.stdout.index(text, place)


def test_the_programs_of_the_tutorial(cluster: MiniCluster) -> None:
    argv = [sys.executable, EXAMPLES / "tutorial" / "send_orders.py"]
    subprocess.run(argv, env=environment(cluster), check=True, capture_output=True, timeout=60)
    billing = subprocess.Popen(
        [sys.executable, EXAMPLES / "tutorial" / "bill_orders.py"],
        env=environment(cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert billing.stdout is not None
    with ticking(cluster):
        billed = [billing.stdout.readline().strip() for _ in range(10)]
    assert sorted(billed) == sorted(f"billed order {n}" for n in range(1, 11))
    assert billed[-1] == "billed order 3"
    billing.send_signal(signal.SIGINT)
    out, err = billing.communicate(timeout=30)
    assert out.strip() == "stopped"
    assert err.count("RuntimeError: the card reader does not answer") == 2


def test_every_program_is_run_or_compiled() -> None:
    folders = ("howto", "coming_from", "tutorial")
    found = {p for f in folders for p in (EXAMPLES / f).glob("*.py") if p.name != "__init__.py"}
    known = {EXAMPLES / name for name in PROGRAMS} | {EXAMPLES / "coming_from" / o for o in OTHERS}
    assert found == known | {EXAMPLES / "tutorial" / "bill_orders.py"}
    for name in OTHERS:
        path = EXAMPLES / "coming_from" / name
        compile(path.read_text(), str(path), "exec")
