"""INV-26: a transaction ends once, as its producer said.

A half message is in no queue that readers know. The message of a commit that was answered is there
once, on every replica; of one that was rolled back, or given up after the last check, never. One
whose producer stays silent is given up, and kept for operators.
"""

from collections import Counter
from collections.abc import Sequence

from epochmq.broker.internal_writes.internal_writer import Origin
from epochmq.model.names import TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.store.draft import Draft
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.oracle import Oracle, Result
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS, number_of, read_all
from sim.kernel.world import World


class Transactions(Checker):
    """What producers decided, said, and heard."""

    rule = "INV-26"

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.decisions: dict[int, str] = {}
        """number -> `commit`, `rollback` or `silent`."""
        self.said: set[int] = set()
        """Ends that went out."""
        self.answered: set[int] = set()
        """Ends that a broker took."""

    def decided(self, number: int, how: str) -> None:
        self.decisions[number] = how

    def ending(self, number: int) -> None:
        self.said.add(number)

    def ended(self, number: int) -> None:
        self.answered.add(number)

    def may_be_seen(self, number: int) -> bool:
        return self.decisions[number] == "commit" and number in self.said

    def moves_on(self, broker: Broker, drafts: Sequence[Draft], origin: Origin) -> None:
        if origin is not Origin.TRANSACTION:
            return
        for draft in drafts:
            if draft.topic in TOPICS:
                number = int(bytes(draft.body).partition(b":")[0])
                if not self.may_be_seen(number):
                    text = f"message {number} is delivered, and nobody committed it"
                    raise Violation(self.rule, text, (broker.host.name,))

    def finish(self, world: World) -> None:
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, Broker) and host.process.store.fenced is None:
                self.judge(name, host.process)

    def judge(self, name: str, broker: Broker) -> None:
        seen: Counter[int] = Counter()
        for topic in TOPICS:
            for queue in range(QUEUES):
                seen.update(number_of(raw) for raw in read_all(broker.store, topic, queue))
        kept = read_all(broker.store, TRANS_CHECK_MAX_TIME_TOPIC, 0)
        given_up = {number_of(raw) for raw in kept}
        for number in self.decisions:
            problem = self.problem(number, seen[number], number in given_up)
            if problem:
                raise Violation(self.rule, f"transaction {number} {problem}", (name,))

    def problem(self, number: int, seen: int, given_up: bool) -> str:
        """What is wrong with how it ended; empty for nothing."""
        if seen > 1:
            return f"was delivered {seen} times"
        if seen and (given_up or not self.may_be_seen(number)):
            return "was delivered, and it was rolled back or given up"
        if number in self.answered:
            committed = self.decisions[number] == "commit"
            return "was committed, and is lost" if committed and not seen else ""
        if self.oracle.sends[number].result is not Result.OK:
            return ""
        if self.decisions[number] == "commit" and number in self.said:
            return "" if seen or given_up else "was committed, and neither seen nor given up"
        if self.decisions[number] == "silent" and not given_up:
            return "is silent, and was never given up"
        return ""
