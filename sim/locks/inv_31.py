"""INV-31: in strict mode at most one client holds a queue at any instant of true time.

What a client believes on its own clock is turned into true time when it begins to believe it; a
second holder can begin at no other moment. With longer pauses at most one can commit: a broker
takes no commit of somebody while it knows that the queue is another's by its own answer.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochmq.model.topic import MessageQueue
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation

if TYPE_CHECKING:
    from sim.locks.lock_brokers import LockBroker
    from sim.locks.lock_clients import LockClient


@dataclass(slots=True)
class _Belief:
    client: "LockClient"
    until_us: int
    broker: str
    """Who answered last."""

    def lasts(self, time_us: int) -> bool:
        return time_us < self.until_us and self.client.host.process is self.client


class OneHolder(Checker):
    """Knows what every living client believes."""

    rule = "INV-31"

    def __init__(self) -> None:
        self._beliefs: dict[MessageQueue, dict[str, _Belief]] = {}

    def lock_believed(
        self, client: "LockClient", queue: MessageQueue, until_ms: int, broker: str
    ) -> None:
        beliefs = self._beliefs.setdefault(queue, {})
        host = client.host
        beliefs[client.name] = _Belief(client, host.clock.true_us_of(until_ms), broker)
        for other in self._others(queue, client.name, client.world.time_us):
            text = (
                f"{client.name} by {broker} and {other.client.name} by {other.broker} hold {queue}"
            )
            raise Violation(self.rule, text, (host.name, other.client.host.name))

    def lock_given_back(self, client: "LockClient", queue: MessageQueue) -> None:
        self._beliefs.get(queue, {}).pop(client.name, None)

    def commit_taken(self, broker: "LockBroker", client: str, queue: MessageQueue) -> None:
        for other in self._others(queue, client, broker.world.time_us):
            if other.broker == broker.host.name:
                text = f"{client} commits over {other.client.name}, who holds {queue}"
                raise Violation(self.rule, text, (broker.host.name,))

    def _others(self, queue: MessageQueue, client: str, time_us: int) -> list[_Belief]:
        beliefs = self._beliefs.get(queue, {})
        return [b for name, b in beliefs.items() if name != client and b.lasts(time_us)]
