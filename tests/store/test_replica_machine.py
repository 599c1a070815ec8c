"""A follower against lists: bytes in random chunks, confirms, cuts, roles, crashes and restarts."""

from dataclasses import replace
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sim.kernel.disk import SimDisk
from tests.store.replicas import REPLICATED, WALL, log_bytes, opened
from tests.store.world import draft, everything
from tests.tiers import examples

from epochmq.model.record import decode
from epochmq.store.draft import Appended

Known = tuple[int, int, bytes]
"""(log offset, end of the record, body)"""


class ReplicaMachine(RuleBasedStateMachine):
    """`master` is a log of records that never crashes; `store` has a prefix of its bytes.

    After `promote` the store writes for itself, and after `demote` the model cuts it back.
    """

    @initialize(sync_flush=st.booleans(), transient=st.booleans(), seed=st.integers(0, 1 << 30))
    def begin(self, sync_flush: bool, transient: bool, seed: int) -> None:
        self.rng = Random(seed)
        self.options = replace(REPLICATED, sync_flush=sync_flush, transient_pool=transient)
        self.disk = SimDisk()
        self.store = opened(self.disk, self.options)
        self.master = opened(SimDisk())
        self.wall, self.now, self.sent = WALL, 0, 0
        self.log: list[Known] = []
        """The records that the store must have, in order; the last ones may not be whole yet."""
        self.limit = 0
        self.sure = 0
        """End of the bytes that a power cut may not take."""
        self.leads = False

    def made(self, store: object, count: int) -> list[Known]:
        assert store in (self.store, self.master)
        found: list[Known] = []
        target = self.store if store is self.store else self.master
        for _ in range(count):
            one = draft(self.sent, self.rng)
            self.sent += 1
            (result,) = target.append([one], self.wall)
            assert isinstance(result, Appended)
            found.append((result.offset, result.offset + result.size, one.body))
        return found

    @precondition(lambda self: not self.leads)
    @rule(count=st.integers(1, 4))
    def master_writes(self, count: int) -> None:
        self.log += self.made(self.master, count)

    @precondition(lambda self: not self.leads)
    @rule(sizes=st.lists(st.sampled_from([1, 3, 8, 60, 91, 500, 4000]), min_size=1, max_size=6))
    def ship(self, sizes: list[int]) -> None:
        for size in sizes:
            at = self.store.pointers.appended
            data = self.master.slice(at, size)
            if data:
                window = self.store.raw_space(len(data))
                count = min(len(window), len(data))
                window[:count] = data[:count]
                self.store.raw_written(count, self.wall)

    @rule(back=st.integers(0, 900))
    def confirm(self, back: int) -> None:
        offset = max(self.store.pointers.appended - back, 0)
        self.store.limit_confirm(offset)
        bound = min(offset, self.store.whole_end, self.store.transferable)
        self.limit = max(self.limit, bound)
        assert self.store.pointers.confirmed == self.limit

    @rule()
    def sync(self) -> None:
        self.store.sync()
        self.sure = self.store.whole_end
        self.committed()

    def committed(self) -> None:
        """What left the transient pool may be confirmed by a limit that was told before."""
        assert self.store.pointers.confirmed >= self.limit
        assert self.options.transient_pool or self.store.pointers.confirmed == self.limit
        self.limit = self.store.pointers.confirmed

    @rule(ms=st.sampled_from([1, 30, 5000]))
    def tick(self, ms: int) -> None:
        self.wall, self.now = self.wall + ms, self.now + ms
        self.store.tick(self.now, self.wall)
        self.store.chores.run_all()
        self.committed()

    @precondition(lambda self: not self.leads)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """Some records back, on the master too: another one is the master now."""
        ends = [0, *(end for _, end, _ in self.log)]
        low = max(self.limit, 0)
        choices = [end for end in ends if low <= end <= self.store.pointers.appended]
        if not choices:
            return
        point = data.draw(st.sampled_from(choices))
        cut = self.store.truncate(point, "a new master")
        whole = [known for known in self.log if known[0] >= point and known[1] <= point + cut.size]
        assert cut.count == len(whole)
        self.store.pointers.check_order()
        self.master.seal_tail()
        self.master.limit_confirm(0)
        self.master.truncate(point, "as the new master", operator=True)
        self.log = [known for known in self.log if known[1] <= point]
        self.sure = min(self.sure, self.store.whole_end)

    @precondition(lambda self: not self.leads)
    @rule(count=st.integers(1, 3))
    def promote(self, count: int) -> None:
        end = self.store.seal_tail()
        self.log = [known for known in self.log if known[1] <= end]
        assert end == max((known[1] for known in self.log), default=0) or end % 4096 == 0
        self.log += self.made(self.store, count)
        self.leads = True

    @precondition(lambda self: self.leads)
    @rule()
    def demote(self) -> None:
        """The master takes over what the store has, and goes on from there."""
        self.store.limit_confirm(self.limit)
        upto = self.store.transferable
        self.store.truncate(upto, "not sent")
        self.log = [known for known in self.log if known[1] <= upto]
        self.master.truncate(min(self.master.pointers.appended, self.common()), "", operator=True)
        while (at := self.master.pointers.appended) < upto:
            self.master.append_raw(at, bytes(self.store.slice(at, upto - at)))
        self.master.seal_tail()
        self.leads = False

    def common(self) -> int:
        """Where the master's log parts from the store's, at a record."""
        mine, theirs = log_bytes(self.store, self.store.transferable), log_bytes(self.master)
        ends = [0, *(end for _, end, _ in self.log)]
        return max(e for e in ends if e <= len(theirs) and mine[:e] == theirs[:e])

    @rule()
    def restart(self) -> None:
        self.store.close(self.wall)
        self.committed()
        before = self.limit
        self.reopen(self.disk)
        assert self.store.pointers.confirmed == before
        assert self.store.clean_start

    @rule(seed=st.integers(0, 1 << 30))
    def power_cut(self, seed: int) -> None:
        self.reopen(self.disk.crash(seed))

    def reopen(self, disk: SimDisk) -> None:
        self.disk = disk
        self.store = opened(disk, self.options, self.wall)
        end = self.store.pointers.appended
        assert end >= self.sure
        self.limit = self.store.pointers.confirmed
        self.sure = end
        if self.leads:
            self.log = [known for known in self.log if known[1] <= end]
            self.demote()

    @invariant()
    def readers_see_what_is_confirmed(self) -> None:
        if not hasattr(self, "store"):
            return
        store = self.store
        pointers = store.pointers
        pointers.check_order()
        seen = {}
        for topic, queue_id, queue_offset, record in everything(store):
            message = decode(record)
            assert (message.topic, message.queue_id) == (topic, queue_id)
            assert message.queue_offset == queue_offset
            seen[message.offset] = message.body
        bound = pointers.readable
        assert seen == {offset: body for offset, end, body in self.log if end <= bound}
        if not self.leads:
            same = min(pointers.appended, self.master.pointers.appended)
            assert log_bytes(store, same) == log_bytes(self.master, same)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.verify().problems == []
            self.store.limit_confirm(None)
            self.store.sync()
            assert self.store.verify().problems == []


ReplicaMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestReplica = ReplicaMachine.TestCase
