"""What name servers say of a group: one by one, and taken together."""

from epochmq.base import limits
from epochmq.broker.group.name_servers_view import (
    GroupView,
    Heard,
    NameServerAnswer,
    NameServersVerdict,
    Said,
)

A, B, C = "a:1", "b:1", "c:1"
MASTER, OURS, OTHER = "m:1", "s:1", "t:1"
QUIET = 10_000
FAILED = NameServerAnswer(Said.FAILED, problem="no answer")
EMPTY = NameServerAnswer(Said.EMPTY)


def members(**ids: str) -> NameServerAnswer:
    """`members(i0=MASTER, i1=OURS)`."""
    return NameServerAnswer(Said.MEMBERS, {int(key[1:]): address for key, address in ids.items()})


WHOLE = members(i0=MASTER, i1=OURS)
ALONE = members(i1=OURS)


def view_of(*servers: str, own_id: int = 1) -> GroupView:
    return GroupView(servers, own_id, OURS if own_id else MASTER, QUIET)


def test_members_are_those_of_all_servers_the_smallest_id_first() -> None:
    view = view_of(A, B)
    assert view.members() == {}
    view.heard(A, members(i2=OTHER, i1=OURS), 0)
    view.heard(B, WHOLE, 0)
    assert list(view.members().items()) == [(0, MASTER), (1, OURS), (2, OTHER)]
    assert list(view.others()) == [0, 2]


def test_of_two_addresses_the_later_told_one() -> None:
    view = view_of(A, B)
    view.heard(A, WHOLE, 0)
    view.heard(B, members(i0="new:1", i1=OURS), 5)
    assert view.members()[0] == view.known[0] == "new:1"


def test_a_stranger_is_no_name_server() -> None:
    view = view_of(A)
    assert view.heard("x:1", WHOLE, 0) == Heard(senior_came=False, misses_us=False)
    view.lost("x:1")
    assert view.members() == {}


def test_when_a_majority_was_asked() -> None:
    assert view_of().asked_ms(77) == 77
    view = view_of(A, B, C)
    view.heard(A, ALONE, 30, 10)
    assert view.asked_ms(99) == -1
    view.heard(B, EMPTY, 30, 20)
    assert view.asked_ms(99) == 10
    view.heard(C, WHOLE, 30)
    assert view.asked_ms(99) == 20
    view.heard(C, FAILED, 50, 40)
    assert view.asked_ms(99) == 10


def test_what_is_left_of_ourselves_is_nobody_else() -> None:
    """A master that restarts may still be listed."""
    view = view_of(A, own_id=0)
    view.heard(A, members(i0="old:1", i1=MASTER), 0)
    assert view.others() == {}


def test_an_empty_or_failed_answer_is_never_alone() -> None:
    """H3."""
    view = view_of(A, B, C)
    assert view.verdict(0) is NameServersVerdict.UNKNOWN
    for address in (A, B):
        view.heard(address, EMPTY, 0)
    assert view.verdict(QUIET - 1) is NameServersVerdict.UNKNOWN
    assert view.verdict(QUIET) is NameServersVerdict.ALONE
    view.heard(B, FAILED, QUIET)
    assert view.verdict(QUIET) is NameServersVerdict.UNKNOWN
    view.heard(B, EMPTY, QUIET + 1)
    assert view.verdict(2 * QUIET) is NameServersVerdict.UNKNOWN, "it may have been started again"
    assert view.verdict(2 * QUIET + 1) is NameServersVerdict.ALONE


def test_whoever_was_named_a_moment_ago_may_only_have_lost_its_registration() -> None:
    """H3: a member whose connection flapped is gone for a heartbeat, and acted all the time."""
    view = view_of(A, own_id=0)
    view.heard(A, WHOLE, 0)
    view.heard(A, members(i1=OURS), 5 * QUIET)
    view.heard(A, EMPTY, 5 * QUIET + 1)
    assert view.verdict(6 * QUIET - 1) is NameServersVerdict.UNKNOWN
    assert view.verdict(6 * QUIET) is NameServersVerdict.ALONE


def test_what_was_said_before_may_be_forgotten_but_not_the_addresses() -> None:
    view = view_of(A, B)
    view.heard(A, WHOLE, 0)
    view.heard(B, ALONE, 0)
    view.forget()
    assert view.members() == {}
    assert view.verdict(9 * QUIET) is NameServersVerdict.UNKNOWN
    assert view.confirming() == 0
    assert view.known == WHOLE.members
    assert view.heard(A, EMPTY, 0).misses_us


def test_one_server_that_names_somebody_is_enough() -> None:
    view = view_of(A, B, C)
    for address in (A, B):
        view.heard(address, EMPTY, 0)
    view.heard(C, WHOLE, QUIET)
    assert view.verdict(QUIET) is NameServersVerdict.OTHERS


def test_without_name_servers_there_is_nobody_to_know() -> None:
    assert view_of().verdict(0) is NameServersVerdict.ALONE


def test_a_name_server_that_lost_the_registration_is_noticed() -> None:
    view = view_of(A)
    assert not view.heard(A, EMPTY, 0).misses_us, "it never knew us: we are about to register"
    view.heard(A, WHOLE, 0)
    view.lost(A)
    assert view.heard(A, EMPTY, 0).misses_us
    assert view.heard(A, members(i0=MASTER), 0).misses_us
    assert view.heard(A, members(i1="elsewhere:1"), 0).misses_us
    assert not view.heard(A, WHOLE, 0).misses_us
    assert not view.heard(A, FAILED, 0).misses_us


def test_headless_needs_answers_in_a_row_of_a_server_that_showed_the_master() -> None:
    view = view_of(A)
    assert not view.suspicious
    view.heard(A, WHOLE, 0)
    for times in (1, 2):
        view.heard(A, ALONE, times)
        assert view.headless(times, times) == 1
        assert view.headless(times, times + 1) == 0
    view.heard(A, EMPTY, 3)
    assert view.confirming() == view.headless(3, 1) == 0, "it must name us"
    view.heard(A, ALONE, 4)
    view.heard(A, WHOLE, 5)
    assert not view.suspicious


def test_a_young_server_that_never_showed_the_master_is_believed_late() -> None:
    view = view_of(A)
    view.heard(A, WHOLE, 0)
    view.lost(A)
    view.heard(A, ALONE, 100)
    assert view.confirming() == 1
    assert view.headless(100 + QUIET - 1, 1) == 0
    assert view.headless(100 + QUIET, 1) == 1


def test_a_senior_that_comes_is_news_once() -> None:
    view = view_of(A)
    assert view.heard(A, WHOLE, 0).senior_came
    assert not view.heard(A, WHOLE, 1).senior_came
    assert not view.heard(A, members(i1=OURS, i2=OTHER), 2).senior_came
    assert view.heard(A, WHOLE, 3).senior_came


def test_ids_are_not_remembered_without_bound() -> None:
    view = view_of(A)
    for number in range(2 * limits.REPLICAS_MAX):
        view.heard(A, NameServerAnswer(Said.MEMBERS, {number: MASTER}), 0)
    assert len(view.known) <= limits.REPLICAS_MAX


def test_figures() -> None:
    view = view_of(A, B, C)
    view.heard(A, WHOLE, 0)
    view.heard(B, EMPTY, 0)
    assert view.statistics() == {"members": 1, "empty": 1, "failed": 1}
    assert view.majority == 2


def test_what_is_missing_before_anybody_is_alone() -> None:
    view = view_of(A, B, C)
    assert view.waits_for(0) == "0 of 3 name servers answer, 2 must"
    view.heard(A, members(i1=OURS), 0)
    assert view.waits_for(0) == "1 of 3 name servers answer, 2 must"
    view.heard(B, members(), 100)
    view.heard(C, members(), 300)
    assert view.waits_for(300) == f"they name nobody else; that is believed in {QUIET - 200} ms"
    assert view.waits_for(100 + QUIET) == ""
    assert view.verdict(100 + QUIET) is NameServersVerdict.ALONE
