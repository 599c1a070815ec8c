"""S34 (rocketmq#7724, #8479): a topic is recreated while messages of it are pending.

Some are delayed, half, popped and not acknowledged, or just being popped, when an operator deletes
their topic and makes it again; the master may die afterwards. Expected: everything that waited is
done with, nothing is looked for without end, no other message comes in the place of one that is
gone, and what is sent to the new topic is handed out from its first message on.
"""

from collections.abc import Iterator
from functools import partial
from random import Random

from epochmq.client.core.pop_state import NORMAL, RETRY_V1, RETRY_V2, retry_topic_of
from sim.group.clients import Client
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.workload import QUEUES
from sim.kernel.world import MS
from sim.scenarios.later_story import LaterStory
from sim.scenarios.recreated_topic import CONSUMERS, RECREATED, RecreatedTopic, RecreatedTopicClient
from sim.scenarios.script import Missed, Step
from sim.secondary.secondary_broker import SecondaryBroker

KINDS = ("plain", "plain", "plain", "level", "timer", "half")
COPIED_US = 500 * MS
"""Until replicas know of a deletion."""


class Story(LaterStory):
    name = "S34"
    kinds_sent = ("plain", "level", "timer", "half")
    with_pops = True

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.copy_behind = sizes.choice((4, 20_000))

    def checkers(self) -> list[Checker]:
        self.recreated = RecreatedTopic()
        return [*super().checkers(), self.recreated]

    def make_client(self, host: Host) -> Client:
        return RecreatedTopicClient(self, host)

    def script(self) -> Iterator[Step]:
        chance, book = self.world.streams["story"], self.recreated
        yield lambda: len(self.members()) == 3
        self.lead(self.client())
        made: list[bool] = []
        self.at_client(lambda: self.client().make(partial(made.append, True)))
        yield lambda: bool(made)
        for _ in range(chance.randint(1, 2)):
            book.generation += 1
            sends = chance.randint(6, 16)
            for _ in range(sends):
                self.at_client(lambda: self.client().send_to_recreated(chance.choice(KINDS)))
                yield chance.randrange(20) * MS
            yield lambda n=book.generation: len(book.lasting) >= 4  # type: ignore[misc]
            for _ in range(chance.randint(1, 3)):
                self.at_client(lambda: self.client().pop_recreated())
                yield chance.randrange(60) * MS
            made.clear()
            self.at_client(lambda: self.client().delete(partial(made.append, True)))
            yield lambda: bool(made)
            yield chance.choice((0, 0, 50, 400)) * MS
            made.clear()
            self.at_client(lambda: self.client().make(partial(made.append, True)))
            yield lambda: bool(made)
        book.generation += 1
        for _ in range(12):
            self.at_client(lambda: self.client().send_to_recreated(chance.choice(KINDS)))
            yield chance.randrange(10) * MS
        yield lambda: len(book.lasting) >= 6
        if chance.randrange(2):
            yield COPIED_US
            a = self.master()
            self.world.kill(self.host(a))
            yield lambda: self.is_master(*self.others(a))
            self.world.start(self.host(a))
            yield lambda: len(self.group().members) == 3
        yield self.noise(100, 500)

    def client(self) -> RecreatedTopicClient:
        process = self.clients[0].process
        if not isinstance(process, RecreatedTopicClient):
            raise Missed
        return process

    def at_client(self, act) -> None:  # type: ignore[no-untyped-def]
        self.world.after(0, "again", act, self.clients[0])

    # After the story ----------------------------------------------------------------------------

    def drain_pops(self) -> None:
        super().drain_pops()
        host, world = self.clients[0], self.world

        def act() -> None:
            self.client().pop_recreated()
            world.after(50 * MS, "drain", act, host)

        world.after(0, "drain", act, host)

    def is_calm(self) -> bool:
        return (
            super().is_calm()
            and not self.recreated.waiting
            and all(self.all_recreated_popped(broker) for broker in self.masters())
        )

    def all_recreated_popped(self, broker: SecondaryBroker) -> bool:
        """The group stands at the end of the new topic and of its retries."""
        owned = broker.owned
        return all(
            owned.store.queue_bounds(topic, queue)[1]
            <= max(0, owned.offsets.get(CONSUMERS, topic, queue))
            for topic in (
                retry_topic_of(RECREATED, CONSUMERS, m) for m in (NORMAL, RETRY_V1, RETRY_V2)
            )
            for queue in range(QUEUES)
        )

    def text(self) -> str:
        return f"{super().text()}, of {RECREATED} {sorted(self.recreated.waiting)}"
