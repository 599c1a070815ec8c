"""Who waits for what: woken by its topic and both retry topics, bounded in every way."""

from epochmq.broker.pop.pop_polls import PollKey, PopPolls
from epochmq.model.topic import ANY_QUEUE


class Request:
    def __init__(self, key: PollKey, owner: int = 1, deadline: int = 1_000) -> None:
        self.key = key
        self.deadline = deadline
        self.owner = owner
        self.was_held = False

    def note_held(self) -> None:
        self.was_held = True


def polls(per_key: int = 10, keys: int = 10, total: int = 10) -> PopPolls:
    return PopPolls(per_key_max=per_key, keys_max=keys, total_max=total)


ANY = PollKey("T", "G", ANY_QUEUE)
ONE = PollKey("T", "G", 1)


def test_news_of_the_topic_and_of_its_retries() -> None:
    core = polls()
    core.hold(Request(ANY))
    core.hold(Request(ONE))
    core.hold(Request(PollKey("T", "H", ANY_QUEUE)))
    assert core.news("T", 1) == [ANY, ONE, PollKey("T", "H", ANY_QUEUE)]
    assert core.news("T", 0) == [ANY, PollKey("T", "H", ANY_QUEUE)]
    assert core.news("%RETRY%G_T", 0) == [ANY, ONE]
    assert core.news("%RETRY%G+T", 0) == [ANY, ONE]
    assert core.news("U", 0) == []
    assert core.keys_of("G", "T") == [ANY, ONE]
    assert core.keys_of("G", "U") == []


def test_the_longest_wait_is_served_first() -> None:
    core = polls()
    first, second = Request(ANY), Request(ANY)
    core.hold(first)
    core.hold(second)
    assert (core.waiting(ANY), len(core)) == (2, 2)
    assert core.first(ANY) is first
    assert core.first(ANY) is second
    assert core.first(ANY) is None


def test_notifications_wait_apart() -> None:
    core = polls()
    core.hold(Request(ANY._replace(notify=True)))
    assert core.waiting(ANY) == 0
    assert core.news("T", 0) == [ANY._replace(notify=True)]


def test_bounded_a_key_in_all_and_in_keys() -> None:
    core = polls(per_key=1)
    assert core.hold(Request(ANY))
    assert not core.hold(Request(ANY))
    core = polls(total=1)
    assert core.hold(Request(ANY))
    assert not core.hold(Request(ONE))
    core = polls(keys=1)
    assert core.hold(Request(ANY, owner=5))
    assert not core.hold(Request(ONE))
    core.polls.drop(5)
    assert core.hold(Request(ONE))
    assert core.keys_of("G", "T") == [ONE]
    assert core.statistics()["keys"] == 1
