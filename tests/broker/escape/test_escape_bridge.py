"""Every message gets one outcome; STORED only when a master holds it."""

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.tiers import examples

from epochmq.base import limits
from epochmq.broker.escape import escape_bridge as escape_core
from epochmq.broker.escape.escape_bridge import Escape, ForwardItems, SendOutcome
from epochmq.broker.escape.forward_batch import ForwardedMessage, Where
from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.model.revive_routing import PIN_STEP, place_of
from epochmq.store.draft import Draft

REVIVE = "rmq_sys_REVIVE_LOG_c"


def item(
    topic: str = "T", where: Where = Where.TOPIC, place: int = 0, size: int = 10, name: str = ""
) -> ForwardedMessage:
    return ForwardedMessage(Draft(topic, 0, b"x", b""), topic, size, where, place, name)


class World:
    """An escape, what it was told, and what it said."""

    def __init__(self, *masters: str, topics: dict[str, Sequence[str]] | None = None) -> None:
        self.core = Escape("own")
        self.now = 0
        self.said: list[Sequence[WriteOutcome]] = []
        self.addresses = {name: f"{name}:1" for name in masters}
        self.topics = {"T": masters} if topics is None else topics

    def put(self, *items: ForwardedMessage) -> None:
        self.core.put(items, self.said.append, self.now)

    def ask(self) -> None:
        """Name servers answer all that is asked."""
        wants = self.core.asks(self.now)
        if wants.groups:
            self.core.masters.groups_came(self.addresses, self.now)
        for topic in wants.topics:
            queues = dict.fromkeys(self.topics.get(topic, ()), 4)
            self.core.masters.topic_came(topic, queues, self.now)

    def sends(self, ms: int = 0) -> list[ForwardItems]:
        """Time passes, questions are answered; what is sent then."""
        self.now += ms
        found = []
        for _ in range(3):
            found += self.core.sends(self.now)
            self.ask()
            self.now += escape_core.UNKNOWN_MS
        return found + self.core.sends(self.now)

    def answer(self, send: ForwardItems, verdict: SendOutcome) -> None:
        self.core.answered(send, verdict, self.now)


def test_a_message_goes_to_a_master_that_has_its_topic() -> None:
    world = World("a", "b", topics={"T": ["b"]})
    world.put(item(), item())
    first, second = world.sends()
    assert {first.name, second.name} == {"b"}
    assert first.address == "b:1"
    world.answer(second, SendOutcome.HELD)
    assert world.said == []
    world.answer(first, SendOutcome.HELD)
    assert world.said == [[WriteOutcome.STORED] * 2]
    statistics = world.core.statistics()
    assert (statistics["stored"], statistics["waiting"], statistics["in_flight"]) == (2, 0, 0)
    assert world.core.oldest_ms(world.now) == 0


def test_masters_share_and_one_message_goes_to_one_of_them() -> None:
    """Also after a restart of who hands over: the master remembers it."""
    world, again = World("a", "b"), World("a", "b")
    for one in (world, again):
        one.put(*(item(name=f"m{n}") for n in range(40)))
    chosen = [send.name for send in world.sends()]
    assert set(chosen) == {"a", "b"}
    assert [send.name for send in again.sends()] == chosen


def test_a_message_of_an_unknown_topic_goes_to_a_master_that_creates_topics() -> None:
    world = World("a", "b", topics={DEFAULT_TOPIC: ["a"]})
    world.put(item())
    assert [send.name for send in world.sends()] == ["a"]


def test_a_retry_goes_to_any_master() -> None:
    world = World("a", topics={})
    world.put(item("%RETRY%G", Where.ANY))
    assert [send.name for send in world.sends()] == ["a"]


def test_what_must_meet_others_goes_to_one_and_the_same() -> None:
    world = World("a", "b", "c")
    world.put(*(item("T", Where.ONE) for _ in range(9)))
    assert len({send.name for send in world.sends()}) == 1


def test_with_no_master_for_the_one_place_it_waits() -> None:
    world = World("a", topics={})
    world.put(item("T", Where.ONE))
    assert world.sends() == []


def test_a_pin_names_its_master_and_no_other_takes_it() -> None:
    world = World("a", "b")
    world.put(item(REVIVE, Where.PINNED, place_of("b")), item(REVIVE, Where.PINNED, 77))
    assert [send.name for send in world.sends()] == ["b"]


def test_pins_are_chosen_among_masters_that_have_both_topics() -> None:
    world = World("a", "b", "c", topics={"T": ["a", "b"], REVIVE: ["b", "c"]})
    core = world.core
    core.active = True
    assert core.choose_pin("T", REVIVE, 0) is None  # nobody was asked yet
    world.ask()
    found = core.choose_pin("T", REVIVE, 0)
    assert found is not None
    assert found // PIN_STEP == place_of("b")
    assert found % PIN_STEP < 4
    assert core.choose_pin("U", REVIVE, 0) is None
    world.ask()
    assert core.choose_pin("U", REVIVE, 0) is None  # nobody has it
    retry = core.choose_pin("%RETRY%G", REVIVE, 0)
    assert retry is not None
    assert retry // PIN_STEP in (place_of("b"), place_of("c"))


def test_a_topic_that_no_other_group_has_is_made_where_topics_are_made() -> None:
    world = World("a", "b", "c", topics={DEFAULT_TOPIC: ["a", "b"], REVIVE: ["b", "c"]})
    core = world.core
    core.active = True
    assert core.maker("T", REVIVE, 0) is None  # nobody was asked yet
    core.choose_pin("T", REVIVE, 0)
    world.ask()
    assert core.maker("T", REVIVE, 0) is None  # nor who makes topics
    world.ask()
    assert core.maker("T", REVIVE, 0) == "b:1"
    core.masters.topic_came("T", {"a": 4}, 0)
    assert core.maker("T", REVIVE, 0) is None


def test_a_pin_skips_resting_masters_unless_all_rest() -> None:
    world = World("a", "b", topics={"T": ["a", "b"], REVIVE: ["a", "b"]})
    core = world.core
    core.active = True
    core.choose_pin("T", REVIVE, 0)
    world.ask()
    first = core.choose_pin("T", REVIVE, 0)
    assert first is not None
    name = next(n for n in "ab" if place_of(n) == first // PIN_STEP)
    core.masters.failed(name, 0)
    other = core.choose_pin("T", REVIVE, 0)
    assert other is not None
    assert other // PIN_STEP != first // PIN_STEP
    core.masters.failed("a" if name == "b" else "b", 0)
    again = core.choose_pin("T", REVIVE, 0)
    assert again is not None
    assert again // PIN_STEP == first // PIN_STEP


def test_an_unreachable_master_is_skipped() -> None:
    world = World("a", "b")
    world.put(item())
    (send,) = world.sends()
    world.answer(send, SendOutcome.UNREACHED)
    (other,) = world.sends()
    assert other.name != send.name
    world.answer(other, SendOutcome.UNREACHED)
    assert world.core.sends(world.now) == []
    assert world.core.next_deadline() is not None
    (again,) = world.sends(escape_core.WAIT_MAX_MS // 3)
    assert again.name in ("a", "b")


def test_a_refusing_master_is_skipped_and_asked_again_later() -> None:
    world = World("a", "b")
    world.put(item())
    (first,) = world.sends()
    world.answer(first, SendOutcome.REFUSED)
    (second,) = world.sends()
    assert second.name != first.name
    world.answer(second, SendOutcome.REFUSED)
    assert world.core.sends(world.now) == []
    (third,) = world.sends(escape_core.PAUSE_MS)
    world.answer(third, SendOutcome.HELD)
    assert world.said == [[WriteOutcome.STORED]]
    assert world.core.statistics()["refused"] == 2


def test_a_lost_answer_goes_to_the_same_master_and_then_to_another() -> None:
    world = World("a", "b")
    world.put(item())
    (first,) = world.sends()
    world.answer(first, SendOutcome.LOST)
    start = world.now
    names = []
    while world.now < start + escape_core.FAITHFUL_MS + 10_000:
        for send in world.sends(100):
            names.append(send.name)
            world.answer(send, SendOutcome.UNREACHED)
    assert names[0] == first.name
    assert {"a", "b"} == set(names)
    other = names.index("b" if first.name == "a" else "a")
    assert set(names[:other]) == {first.name}
    assert world.said == []  # it may be stored: nobody may put it again


def test_one_that_goes_is_not_waited_for() -> None:
    world = World("a", "b")
    world.put(item())
    (first,) = world.sends()
    world.answer(first, SendOutcome.LOST)
    del world.addresses[first.name]
    world.now += 3_000
    world.ask()
    (other,) = world.sends()
    assert other.name != first.name
    world.answer(other, SendOutcome.LOST)
    world.answer(world.sends(3_000)[0], SendOutcome.LOST)
    assert world.said == []


def test_what_is_in_a_log_but_not_held_is_sent_again_there() -> None:
    world = World("a", "b")
    world.put(item())
    (first,) = world.sends()
    world.answer(first, SendOutcome.WEAK)
    assert world.core.sends(world.now) == []
    (again,) = world.sends(escape_core.PAUSE_MS)
    assert again.name == first.name
    world.answer(again, SendOutcome.HELD)
    assert world.said == [[WriteOutcome.STORED]]
    assert world.core.statistics()["again"] == 1


def test_a_message_that_no_master_accepts_fails_after_a_while() -> None:
    world = World()
    world.put(item(), item())
    assert world.sends() == []
    assert world.core.oldest_ms(world.now) > 0
    assert world.said == []
    world.sends(escape_core.WAIT_MAX_MS)
    assert world.said == [[WriteOutcome.LATER] * 2]
    assert world.core.statistics()["given_up"] == 2


def test_a_batch_of_which_something_is_stored_is_not_given_up() -> None:
    world = World("a")
    world.put(item(), item())
    first, second = world.sends()
    world.answer(first, SendOutcome.HELD)
    world.answer(second, SendOutcome.REFUSED)
    for _ in range(10):
        for send in world.sends(escape_core.WAIT_MAX_MS):
            world.answer(send, SendOutcome.REFUSED)
    assert world.said == []
    world.core.stop()
    assert world.said == [[WriteOutcome.STORED, WriteOutcome.LATER]]


def test_answers_that_come_after_the_stop_change_nothing() -> None:
    world = World("a")
    world.put(item())
    (send,) = world.sends()
    world.core.stop()
    world.answer(send, SendOutcome.HELD)
    assert world.said == [[WriteOutcome.LATER]]
    assert world.core.statistics()["in_flight"] == 0
    assert world.sends(10_000) == []


def test_what_is_given_up_while_planned_is_not_sent() -> None:
    world = World()
    world.put(item())
    world.sends()
    world.addresses["a"] = "a:1"
    world.topics["T"] = ["a"]
    world.now += escape_core.WAIT_MAX_MS
    assert world.core.sends(world.now) == []
    assert world.sends(5_000) == []


def test_not_too_much_is_under_way() -> None:
    world = World("a")
    world.put(*(item() for _ in range(escape_core.IN_FLIGHT_MAX + 1)))
    sends = world.sends()
    assert len(sends) == escape_core.IN_FLIGHT_MAX
    world.answer(sends[0], SendOutcome.HELD)
    assert len(world.core.sends(world.now)) == 1


def test_not_too_many_bytes_are_under_way() -> None:
    world = World("a")
    half = escape_core.IN_FLIGHT_BYTES_MAX // 2
    world.put(item(size=half), item(size=half), item())
    assert len(world.sends()) == 2


def test_more_than_can_wait_is_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ESCAPES_MAX", 2)
    world = World("a")
    world.put(item(), item(), item())
    assert world.said == [[WriteOutcome.LATER] * 3]
    world.put()
    assert world.said[1] == []


def test_nothing_is_asked_while_there_is_nothing_to_do() -> None:
    world = World("a")
    assert not world.core.asks(0).groups
    assert world.core.next_deadline() is None
    world.core.active = True
    assert world.core.next_deadline() == 0
    assert world.core.asks(0).groups
    assert world.core.next_deadline() is None  # the answer brings the next


class Peers(RuleBasedStateMachine):
    """Masters die, return and lose answers; a slow model keeps what each really holds."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World("a", "b", "c")
        self.flying: list[ForwardItems] = []
        self.holds: dict[int, set[str]] = {}
        self.outcomes: dict[int, list[Sequence[WriteOutcome]]] = {}
        self.sizes: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.stopped = False

    @rule(count=st.integers(1, 4), where=st.sampled_from([Where.TOPIC, Where.ONE, Where.ANY]))
    def put(self, count: int, where: Where) -> None:
        world, number = self.world, len(self.sizes)
        self.sizes[number] = count
        self.outcomes[number] = []
        self.first[number] = world.core._ids
        items = [item("T", where) for _ in range(count)]
        world.core.put(items, self.outcomes[number].append, world.now)

    @rule(ms=st.sampled_from([0, 50, 300, 3_000, 11_000]))
    def time_passes(self, ms: int) -> None:
        self.flying += self.world.sends(ms)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), kept=st.booleans(), verdict=st.sampled_from(list(SendOutcome)))
    def answers(self, data: st.DataObject, kept: bool, verdict: SendOutcome) -> None:
        at = data.draw(st.integers(0, len(self.flying) - 1))
        send = self.flying.pop(at)
        if verdict in (SendOutcome.HELD, SendOutcome.WEAK) or (
            verdict is SendOutcome.LOST and kept
        ):
            self.holds.setdefault(send.forward_item.id, set()).add(send.name)
        self.world.answer(send, verdict)

    @rule(name=st.sampled_from("abc"))
    def one_dies_or_returns(self, name: str) -> None:
        addresses = self.world.addresses
        if name in addresses:
            del addresses[name]
        else:
            addresses[name] = f"{name}:1"

    @rule()
    def another_role(self) -> None:
        self.world.core.stop()
        for number, said in self.outcomes.items():
            assert len(said) == 1, number

    @invariant()
    def one_outcome_each_and_stored_means_held(self) -> None:
        for number, said in self.outcomes.items():
            assert len(said) <= 1
            for outcomes in said:
                assert len(outcomes) == self.sizes[number]
                for place, outcome in enumerate(outcomes):
                    assert outcome in (WriteOutcome.STORED, WriteOutcome.LATER)
                    if outcome is WriteOutcome.STORED:
                        assert self.holds.get(self.first[number] + place)

    @invariant()
    def nothing_is_under_way_twice(self) -> None:
        ids = [send.forward_item.id for send in self.flying]
        assert len(ids) == len(set(ids))
        assert self.world.core.statistics()["in_flight"] == len(ids)

    def teardown(self) -> None:
        """Once all masters live and take everything, everything that is open is stored."""
        world = self.world
        world.addresses = {name: f"{name}:1" for name in "abc"}
        open_before = {n for n, said in self.outcomes.items() if not said}
        for _ in range(200):
            for send in self.flying:
                self.holds.setdefault(send.forward_item.id, set()).add(send.name)
                world.answer(send, SendOutcome.HELD)
            self.flying = world.sends(100)
        for number in open_before:
            assert len(self.outcomes[number]) == 1
        assert world.core.statistics()["waiting"] == 0


Peers.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestPeers = Peers.TestCase
