"""Windows are committed in order, whatever the order in which they become safe."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from epochmq.broker.pop.pop_windows import PopWindow, QueueKey, Windows

KEY = QueueKey("G", "T", 0)
OTHER = QueueKey("G", "T", 1)


def opened(core: Windows, after: int, key: QueueKey = KEY) -> PopWindow:
    window = core.open(key, after)
    core.arrived(window)
    return window


def test_a_window_holds_the_ones_behind_it() -> None:
    core = Windows()
    first, second = opened(core, 3), opened(core, 5)
    assert (core.next_offset(KEY), core.width(KEY)) == (5, 2)
    assert core.offset_to_commit(second) is None
    assert core.offset_to_commit(first) == 5
    assert core.next_offset(KEY) is None
    assert core.offset_to_commit(first) is None
    assert core.statistics() == {"windows": 0, "queues": 0, "busy": 0}


def test_one_on_its_way_keeps_others_out() -> None:
    core = Windows()
    window = core.open(KEY, 3)
    assert core.busy(KEY)
    assert not core.busy(OTHER)
    core.failed(window)
    assert (core.busy(KEY), core.next_offset(KEY)) == (False, None)
    first = opened(core, 3)
    core.failed(core.open(KEY, 5))
    assert core.next_offset(KEY) == 3
    assert core.offset_to_commit(first) == 3


def test_what_was_forgotten_decides_nothing() -> None:
    core = Windows()
    old = core.open(KEY, 9)
    core.forget(KEY)
    core.forget(OTHER)
    new = core.open(KEY, 3)
    core.arrived(old)
    assert core.busy(KEY)
    core.failed(old)
    assert core.offset_to_commit(old) is None
    core.arrived(new)
    core.clear()
    assert core.offset_to_commit(new) is None
    assert core.statistics()["windows"] == 0


def test_what_is_dropped_decides_nothing() -> None:
    core = Windows()
    old, other = core.open(KEY, 9), opened(core, 4, OTHER)
    core.drop(lambda key: key == KEY)
    assert (core.busy(KEY), core.next_offset(KEY)) == (False, None)
    assert core.offset_to_commit(old) is None
    assert core.offset_to_commit(other) == 4


class Slowly(RuleBasedStateMachine):
    """Against a plain list: the committed offset never passes an unsafe window."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Windows()
        self.model: list[tuple[PopWindow, bool]] = []
        self.committed = self.end = 0

    @rule(size=st.integers(1, 3))
    def take(self, size: int) -> None:
        self.end += size
        self.model.append((opened(self.core, self.end), False))

    @rule(size=st.integers(1, 3))
    def take_in_vain(self, size: int) -> None:
        self.core.failed(self.core.open(KEY, self.end + size))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.model) - 1))
        window, was = self.model[at]
        offset = self.core.offset_to_commit(window)
        self.model[at] = window, True
        expected = None
        while self.model and self.model[0][1]:
            expected = self.model.pop(0)[0].after
        assert offset == expected or was
        self.committed = offset or self.committed

    @rule()
    def forget(self) -> None:
        self.core.forget(KEY)
        self.model, self.end = [], self.committed

    @invariant()
    def same(self) -> None:
        assert self.core.width(KEY) == len(self.model)
        assert (self.core.next_offset(KEY) or self.committed) == self.end


TestSlowly = Slowly.TestCase
