"""`python -m chaos unconfirmed`: does a pipeline read what a failover takes back?

A master holds a tail that no follower has, the pipeline's reader reads the topic, the master dies,
a follower takes over, and the old master comes back and is cut. The same on brokers of EpochMQ and
of RocketMQ, both with the settings they have by default (#7656: since 5.2.0 a RocketMQ master shows
all that it has unless `allAckInSyncStateSet=true`).
"""

import argparse
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.compat.peers import admin, wire
from tests.compat.peers.cluster import Config
from tests.compat.peers.group import JAVA, OURS, Group, Server
from tests.compat.peers.process import wait_until

from epochmq.spark.options import parse_source
from epochmq.spark.plan import QueueRange
from epochmq.spark.rows import batches, close_clusters
from epochmq.spark.spark_cluster import Cluster

TOPIC = "Unconfirmed"
BEFORE, TAIL, AFTER = 20, 5, 10
READ_S = 4.0
"""So long the reader looks for the tail: well below the 15 s after which the set shrinks."""
WAIT_S = 180.0
SEND_MESSAGE_V2 = 310
ANSWERS = {
    0: "SEND_OK",
    10: "FLUSH_DISK_TIMEOUT",
    11: "SLAVE_NOT_AVAILABLE",
    12: "FLUSH_SLAVE_TIMEOUT",
}

Row = tuple[int, bytes]
"""Queue offset and body."""


@dataclass
class Seen:
    """What one run saw."""

    peer: str
    answers: Counter[str] = field(default_factory=Counter)
    """What the sender of the tail was told."""
    read: list[Row] = field(default_factory=list)
    """Rows of the tail that the pipeline read before the failover."""
    now: list[Row] = field(default_factory=list)
    """All rows once the group is whole again."""

    @property
    def gone(self) -> list[Row]:
        """Rows that were read and are in the topic no more."""
        held = set(self.now)
        return [row for row in self.read if row not in held]

    @property
    def replaced(self) -> list[tuple[int, bytes, bytes]]:
        """(offset, body read, body there now) of the places that hold another message."""
        held = dict(self.now)
        return [(at, body, held[at]) for at, body in self.gone if at in held]


class Story:
    """The story on one started group."""

    def __init__(self, group: Group, peer: str) -> None:
        self.group = group
        self.seen = Seen(peer)

    def run(self) -> Seen:
        """All of it; `AssertionError` when the stage cannot be set."""
        master = self._master()
        followers = [broker for broker in self.group.brokers if broker is not master]
        admin.create_topic(master.address, TOPIC, 1)
        for number in range(BEFORE):
            assert send(master, b"before-%d" % number) == "SEND_OK"
        wait_until(lambda: len(self.rows()) == BEFORE, WAIT_S, "the first rows")

        for follower in followers:
            os.kill(follower.process.pid, signal.SIGSTOP)
        for number in range(TAIL):
            self.seen.answers[send(master, b"tail-%d" % number)] += 1
        self.seen.read = self._look()

        for broker in (master, *followers):  # with what the followers' sockets hold unread
            broker.process.kill9()
        for follower in followers:
            follower.start()
        self.group.wait_ready(WAIT_S)
        new = self._master()
        for number in range(AFTER):
            assert send(new, b"after-%d" % number) == "SEND_OK"
        wait_until(lambda: len(self.rows()) >= BEFORE + AFTER, WAIT_S, "the rows after it")
        master.start()
        self.group.wait_ready(WAIT_S)
        self.seen.now = self.rows()
        return self.seen

    def _master(self) -> Server:
        found = self.group.master()
        assert found is not None
        return found

    def _look(self) -> list[Row]:
        """What of the tail is to be read."""
        found: list[Row] = []
        until = time.monotonic() + READ_S
        while len(found) < TAIL and time.monotonic() < until:
            found = self.rows()[BEFORE:]
        return found

    def rows(self) -> list[Row]:
        """The topic as a batch of Spark has it: planned up to the readable end, then read."""
        namesrv = self.group.namesrv_addr
        options = parse_source({"nameServer": namesrv, "subscribe": TOPIC})
        with Cluster(namesrv) as cluster:
            spans = [QueueRange(queue, *ends) for queue, ends in cluster.bounds(TOPIC).items()]
        wanted = ("queueOffset", "body")
        tables = (batch for span in spans for batch in batches(options, wanted, span))
        return [(row["queueOffset"], row["body"]) for each in tables for row in each.to_pylist()]


def send(broker: Server, body: bytes) -> str:
    """One message to queue 0; what the broker says, in the words of RocketMQ's clients."""
    header = {"a": "PG", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0}
    header |= {"g": int(time.time() * 1000), "h": 0, "i": "", "j": 0, "k": "false"}
    try:
        answer = wire.call(broker.address, SEND_MESSAGE_V2, header, body, timeout_s=5)
    except OSError:
        return "no answer"
    return ANSWERS.get(answer.code, f"{answer.code} {answer.remark}"[:80])


def report(seen: Seen) -> str:
    """A paragraph."""
    told = ", ".join(f"{n} x {word}" for word, n in sorted(seen.answers.items()))
    lines = [
        f"{seen.peer}: {TAIL} messages that no follower has; their sender was told: {told}",
        f"  read before the failover: {len(seen.read)} of them",
        f"  of these gone afterwards: {len(seen.gone)}",
    ]
    for at, before, now in seen.replaced:
        lines.append(f"  queue offset {at}: read {before.decode()}, now {now.decode()}")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """The story on each peer asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m chaos unconfirmed", description=__doc__)
    parser.add_argument("--peer", choices=(OURS, JAVA), action="append")
    parser.add_argument("--controllers", choices=(OURS, JAVA), help="others than the brokers' own")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument(
        "--all-ack", action="store_true", help="with allAckInSyncStateSet, not by default"
    )
    args = parser.parse_args(argv)
    config: Config = {"allAckInSyncStateSet": args.all_ack}
    for peer in args.peer or (OURS, JAVA):
        made = Group(args.controllers or peer, peer, replicas=args.replicas, broker_config=config)
        made.ready_timeout_s = WAIT_S
        try:
            with made as group:
                print(report(Story(group, peer).run()), flush=True)
        finally:
            close_clusters()
