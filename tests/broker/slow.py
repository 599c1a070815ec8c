"""Replicas that are slow, for brokers without sockets."""

from collections.abc import Callable

from tests.broker.broker_harness import BrokerHarness


class Slow:
    """Replicas that answer when the test says so: what they are asked waits in `asked`."""

    def __init__(self, harness: BrokerHarness) -> None:
        self.asked: list[tuple[int, Callable[[bool], None]]] = []
        harness.node.when_kept = self._when_kept  # type: ignore[method-assign]

    def _when_kept(self, end: int, done: Callable[[bool], None]) -> None:
        self.asked.append((end, done))

    def answer(self, *, held: bool) -> int:
        """Answer what was asked so far; how many questions those were."""
        asked, self.asked = self.asked, []
        for _, done in asked:
            done(held)
        return len(asked)
