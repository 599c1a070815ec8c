"""The store against lists, with crashes, kills and clean restarts as ordinary events."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.store.world import SMALL, World, draft, everything
from tests.tiers import examples

from epochmq.model.record import decode
from epochmq.store.draft import Appended

TOPICS = ("A", "B", "%RETRY%g")


class StoreMachine(RuleBasedStateMachine):
    """`model` holds, for each queue, the bodies by queue offset; `sure` how many must survive."""

    @initialize(sync_flush=st.booleans(), transient=st.booleans(), seed=st.integers(0, 1 << 30))
    def begin(self, sync_flush: bool, transient: bool, seed: int) -> None:
        from dataclasses import replace

        self.rng = Random(seed)
        self.world = World(replace(SMALL, sync_flush=sync_flush, transient_pool=transient))
        self.world.open()
        self.model: dict[tuple[str, int], list[bytes]] = {}
        self.sure: dict[tuple[str, int], int] = {}

    @rule(topics=st.lists(st.sampled_from(TOPICS), min_size=1, max_size=6))
    def append(self, topics: list[str]) -> None:
        world = self.world
        assert world.store is not None
        drafts = [draft(len(world.sent) + n, self.rng, t) for n, t in enumerate(topics)]
        before = len(world.placed)
        world.append(drafts)
        assert len(world.placed) == before + len(drafts)
        for one, place in list(world.placed.values())[before:]:
            queue = self.model.setdefault((one.topic, one.queue_id), [])
            assert place.queue_offset == len(queue)
            queue.append(one.body)

    @rule()
    def sync(self) -> None:
        self.world.sync()
        self.sure = {name: len(queue) for name, queue in self.model.items()}

    @rule(ms=st.sampled_from([1, 30, 5000]))
    def tick(self, ms: int) -> None:
        self.world.pass_time(ms)
        self.world.tick()

    @rule()
    def restart(self) -> None:
        assert self.world.store is not None
        self.world.store.close(self.world.wall)
        self.world.open()
        self.agree(exact=True)

    @rule(seed=st.integers(0, 1 << 30))
    def power_cut(self, seed: int) -> None:
        self.world.disk = self.world.disk.crash(seed)
        self.world.boot += " and another"
        self.world.open()
        self.agree(exact=False)

    @precondition(lambda self: not self.world.options.transient_pool)
    @rule()
    def kill(self) -> None:
        self.world.disk = self.world.disk.kill()
        self.world.open()
        self.agree(exact=True)

    def agree(self, *, exact: bool) -> None:
        """After a restart: a prefix of each queue, at least what was synced; then go on from it."""
        found: dict[tuple[str, int], list[bytes]] = {}
        assert self.world.store is not None
        for topic, queue_id, offset, record in everything(self.world.store):
            queue = found.setdefault((topic, queue_id), [])
            assert offset == len(queue)
            queue.append(decode(record).body)
        for name, queue in self.model.items():
            kept = found.get(name, [])
            assert kept == queue[: len(kept)]
            assert len(kept) >= (len(queue) if exact else self.sure.get(name, 0))
        assert set(found) <= set(self.model)
        self.model = found
        self.sure = {name: len(queue) for name, queue in found.items()}
        end = self.world.store.pointers.appended
        self.world.placed = {k: v for k, v in self.world.placed.items() if k < end}

    @invariant()
    def readers_see_the_model(self) -> None:
        store = getattr(self, "world", None) and self.world.store
        if not store:
            return
        store.pointers.check_order()
        shown: dict[tuple[str, int], int] = {}
        for topic, queue_id, offset, record in everything(store):
            assert decode(record).body == self.model[topic, queue_id][offset]
            shown[topic, queue_id] = offset + 1
        if store._read_limit.at_once:
            assert shown == {name: len(queue) for name, queue in self.model.items()}

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.store is not None:
            self.world.sync()
            self.world.promised = {}
            self.world.check()


StoreMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestStore = StoreMachine.TestCase
assert Appended


def test_an_index_that_dies_while_it_is_rebuilt_is_rebuilt_again() -> None:
    """Found by the machine above: the checkpoint spoke of an older file that had been replaced."""
    machine = StoreMachine()
    machine.begin(sync_flush=False, transient=False, seed=1)
    for count in (6, 3):
        machine.append(topics=["A"] * count)
    machine.tick(ms=5000)
    machine.kill()
    machine.append(topics=["A"])
    for ms in (1, 30):
        machine.tick(ms=ms)
    machine.append(topics=["A"])
    machine.kill()
    machine.tick(ms=1)
    machine.kill()
    machine.kill()
    machine.teardown()
