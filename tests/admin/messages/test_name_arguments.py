"""Names and filters of the command line."""

import pytest

from epochmq.admin.messages.position import checked_group, checked_sql, checked_topic
from epochmq.base.errors import UsageError


def test_good_ones_pass() -> None:
    assert checked_topic("t") == "t"
    assert checked_group("g") == "g"
    assert checked_sql("a > 5") == "a > 5"


def test_wrong_ones_are_wrong_use() -> None:
    with pytest.raises(UsageError, match="forbidden character"):
        checked_topic("a b")
    with pytest.raises(UsageError, match="forbidden character"):
        checked_group("a b")
    with pytest.raises(UsageError, match="--sql 'a >'"):
        checked_sql("a >")
