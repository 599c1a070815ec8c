"""Counting upwards, and exactly when the limit is reached."""

from epochmq.runtime.bounds import Budget


class Held:
    """What each of a few holds, and who was cut."""

    def __init__(self, limit: int, **sizes: int) -> None:
        self.sizes = sizes
        self.cut: dict[str, str] = {}
        self.budget: Budget[str] = Budget(
            limit, self.sizes, lambda name: self.sizes.get(name, 0), self.cut.__setitem__, "hold"
        )


def test_what_was_given_back_is_noticed_at_the_limit() -> None:
    held = Held(100, a=10, b=20)
    held.budget.seen = 101
    assert held.budget.enforce("a", 30)
    assert (held.budget.seen, held.cut) == (60, {})


def test_the_largest_go_until_a_quarter_is_free() -> None:
    held = Held(100, a=30, b=50, c=10, d=40)
    assert held.budget.enforce("a")
    assert (held.budget.seen, sorted(held.cut)) == (40, ["b", "d"])
    assert held.cut["b"] == "all peers together hold 130 bytes, this one the most"


def test_the_calling_connection_may_be_the_one_closed() -> None:
    held = Held(100, a=1, b=50)
    assert not held.budget.enforce("a", 90)
    assert (held.budget.seen, sorted(held.cut)) == (50, ["a"])


def test_a_connection_not_known_yet_counts_too() -> None:
    held = Held(100, b=50)
    assert not held.budget.enforce("new", 90)
    assert held.budget.seen == 50
