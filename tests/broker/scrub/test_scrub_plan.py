"""The pace of the search, and who is asked."""

from epochmq.broker.scrub.scrub_plan import RETRY_MS, SEARCH_BYTES_MAX, AskForBytes, ScrubCore

MEMBERS = {2: "b", 0: "a"}


def test_the_search_keeps_its_pace() -> None:
    core = ScrubCore(1000, 0)
    assert core.search_bytes(999) == 0
    assert core.search_bytes(1500) == 1500
    assert core.search_bytes(2499) == 0
    assert core.search_bytes(2500) == 1000
    assert core.search_bytes(1 << 40) == SEARCH_BYTES_MAX


def test_each_member_is_asked_once_then_all_rest_longer_and_longer() -> None:
    core = ScrubCore(1000, 0)
    ranges = [(0, 10)]
    now = 0
    for pause in (RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS):
        assert core.wants_members(ranges, now)
        assert core.next_ask(MEMBERS, now) == AskForBytes(0, 10, "a")
        assert core.next_ask(MEMBERS, now) == AskForBytes(0, 10, "b")
        assert core.next_ask(MEMBERS, now) is None
        assert not core.wants_members(ranges, now + pause - 1)
        now += pause
    assert core.asked == 6


def test_what_is_repaired_is_forgotten() -> None:
    core = ScrubCore(1000, 0)
    core.wants_members([(0, 10), (20, 30)], 0)
    assert core.next_ask({}, 0) is None
    assert not core.wants_members([(0, 10)], 0)
    assert core.wants_members([(0, 10), (40, 50)], 0)
    assert core.next_ask(MEMBERS, 0) == AskForBytes(40, 50, "a")
