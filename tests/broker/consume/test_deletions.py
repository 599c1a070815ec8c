"""When topics and groups were deleted, as tables tell each other."""

import msgspec
import pytest

from epochmq.base import limits
from epochmq.broker.consume.consumer_offsets import Deletions

WALL = 1_700_000_000_000


def test_rows_begin_when_their_topic_or_group_was_deleted_last() -> None:
    dropped = Deletions()
    dropped.topic("T", WALL)
    dropped.group("g", WALL + 5)
    assert [dropped.since(key) for key in ("T@g", "T@h", "U@g", "U@h")] == [
        WALL + 5,
        WALL,
        WALL + 5,
        0,
    ]


def test_a_second_deletion_is_later_though_the_clock_is_not() -> None:
    dropped = Deletions()
    for _ in range(2):
        dropped.topic("T", WALL)
    dropped.topic("T", WALL - 9)
    assert dropped.since("T@g") == WALL + 2


def test_what_is_outdated() -> None:
    old, new = Deletions(), Deletions({"T@": 5})
    assert old.outdated(["T@g", "U@g"], new) == ["T@g"]
    assert new.outdated(["T@g", "U@g"], old) == []
    old.join(new)
    assert old.outdated(["T@g"], new) == []
    old.join(Deletions({"T@": 3}))
    assert old.since("T@g") == 5


def test_absent_and_empty_deletions_differ() -> None:
    assert Deletions.from_content({}) is None
    told = Deletions.from_content({"epochmqDropped": {}})
    assert told is not None
    assert told.marks() == {}
    with pytest.raises(msgspec.ValidationError):
        Deletions.from_content({"epochmqDropped": 7})


def test_of_very_many_only_the_last_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DELETIONS_KNOWN_MAX", 2)
    dropped = Deletions()
    for at, topic in enumerate("TUV"):
        dropped.topic(topic, WALL + at)
    assert dropped.marks() == {"U@": WALL + 1, "V@": WALL + 2}
    dropped.join(Deletions({"W@": WALL + 9, "X@": 1}))
    assert dropped.marks() == {"V@": WALL + 2, "W@": WALL + 9}
