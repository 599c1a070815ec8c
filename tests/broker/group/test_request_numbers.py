"""Requests that can be told apart, lines that are said once."""

from epochmq.broker.group.membership_effects import Asker, MembershipReport, Question, Voice
from epochmq.wire.command import Command


def test_every_request_has_its_own_number() -> None:
    asker = Asker(3000)
    first = asker.ask(Question.REGISTER, Command(1003), "c:1", 5, 2)
    second = asker.ask(Question.REGISTER, Command(1003), "c:1", 5, 2)
    assert first.tag != second.tag
    assert (first.timeout_ms, first.tag.sent_at_ms, first.tag.epoch) == (3000, 5, 2)


def test_a_line_is_said_when_it_is_new() -> None:
    say = Voice().say
    assert say("online", "refused") == [MembershipReport("refused", True)]
    assert say("online", "refused") == []
    assert say("elect", "refused") == [MembershipReport("refused", True)]
    assert say("online", "") == []
    assert say("online", "refused") == [MembershipReport("refused", True)]
    assert say("controller", "c:1 leads", problem=False) == [MembershipReport("c:1 leads", False)]
