"""What was acknowledged is there at the end, where a slave may have acted as master.

INV-20: a plain message at the place that its acknowledgement named, in its own group. INV-27: a
delayed one in its queue in one group or another. INV-26: so is that of a transaction whose commit a
broker took; of one that was rolled back, or never committed, nothing is seen, and none stays open.
INV-28: every plain message was popped, once at least.

What machines take is not an excuse here (the world `hard`, ADR 0064). A power cut, with SYNC_FLUSH,
takes only what no client was told is stored; a lost disk, where SYNC_MASTER asks for two copies,
only what no client was told is in two. What may be lost otherwise is not drawn: with ASYNC_FLUSH a
power cut takes what the device had not got, acknowledged or not, where no slave has it or nobody
exchanges the two; the disk of an ASYNC_MASTER takes what its slaves had not copied.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS, number_of, read_all
from sim.kernel.world import World

if TYPE_CHECKING:
    from sim.acting.acting_world import ActingHistory

LATER = ("level", "timer")


class NothingLost(Checker):
    """Reads every queue of every master."""

    rule = "INV-27"

    def __init__(self, history: "ActingHistory") -> None:
        self.history = history

    def shown(self) -> Iterator[int]:
        """The numbers of all that masters show."""
        for group in self.history.groups:
            master = self.history.master(group)
            if master is not None:
                for topic in TOPICS:
                    for queue in range(QUEUES):
                        for raw in read_all(master.node.store, topic, queue):
                            yield number_of(raw)

    def waiting(self) -> set[int]:
        """Delayed, acknowledged, and not out yet."""
        shown = set(self.shown())
        return {sent.number for sent in self.history.book.acked(*LATER)} - shown

    def unpopped(self) -> set[int]:
        """Plain, acknowledged, and never handed out by a pop."""
        if not self.history.pops:
            return set()
        return {sent.number for sent in self.history.book.acked("plain")} - self.history.book.popped

    def open_transactions(self) -> int:
        """Half messages that are neither over nor given up."""
        masters = [self.history.master(group) for group in self.history.groups]
        services = [master.node.transactions for master in masters if master is not None]
        return sum(service.statistics()["window"] if service.ready else 1 for service in services)

    def still(self) -> tuple[str, str] | None:
        """(rule, what has not come to its end); None when all has."""
        waiting, unpopped = sorted(self.waiting()), sorted(self.unpopped())
        if waiting:
            return "INV-27", f"delayed messages are not out: {waiting[:20]}"
        if unpopped:
            return "INV-28", f"never popped: {unpopped[:20]}"
        count = self.open_transactions() if "half" in self.history.mix else 0
        return ("INV-26", f"{count} transactions are open") if count else None

    def judge_transactions(self, counts: Counter[int]) -> None:
        for sent in self.history.book.sends:
            if sent.kind != "half":
                continue
            seen, committed = counts[sent.number], sent.decision == "commit"
            if seen and not (committed and sent.said):
                text = f"transaction {sent.number} is seen, and was not committed"
                raise Violation("INV-26", text)
            if committed and sent.ended and not seen:
                raise Violation("INV-26", f"transaction {sent.number} was committed, and is lost")

    def finish(self, world: World) -> None:
        lost = self.waiting()
        if lost:
            raise Violation(self.rule, f"delayed messages are lost: {sorted(lost)[:20]}")
        counts = Counter(self.shown())
        self.judge_transactions(counts)
        again = sum(counts[sent.number] > 1 for sent in self.history.book.acked(*LATER))
        if again:
            world.marks["covered.delivered_again"] += again
        for sent in self.history.book.acked("plain"):
            master = self.history.master(sent.queue.group)
            if master is None:
                raise Violation("INV-35", f"group {sent.queue.group} has no master")
            found = read_all(master.node.store, sent.queue.topic, sent.queue.queue_id)
            at = sent.queue_offset
            if at >= len(found) or number_of(found[at]) != sent.number:
                text = f"message {sent.number} was acknowledged, and is not in {sent.queue}"
                raise Violation("INV-20", text, (master.host.name,), (at,))
