"""Keys that are accepted without effect, and keys that must be off."""

import pytest

from epochmq.base.options import describe
from epochmq.broker.config.ignored_keys import IGNORED, NOT_SERVED, not_served_problems
from epochmq.broker.config.options import BrokerOptions


def test_every_key_is_in_one_place() -> None:
    served = {row.key for row in describe(BrokerOptions)}
    assert not served & IGNORED
    assert not served & NOT_SERVED.keys()
    assert not IGNORED & NOT_SERVED.keys()


@pytest.mark.parametrize(("text", "count"), [("false", 0), (" False ", 0), ("true", 1), ("", 1)])
def test_only_the_value_that_leaves_it_off(text: str, count: int) -> None:
    assert len(not_served_problems({"enableLmq": text, "other": "true"})) == count
