"""Names of topics and groups."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base import limits
from epochmq.base.errors import HeaderError, Refused
from epochmq.model import names

_good = st.text(
    st.sampled_from("%|abzABZ059_-"), min_size=1, max_size=min(127, limits.GROUP_LENGTH_MAX)
)


@given(_good)
def test_allowed_names_pass(name: str) -> None:
    names.check_topic(name)
    names.check_group(name)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "..", "ä", "a\n", "a\x00", "a@b", "²"])
@pytest.mark.parametrize("check", [names.check_topic, names.check_group])
def test_forbidden_names_are_refused_with_code_1(check: Callable[[str], None], name: str) -> None:
    with pytest.raises(Refused) as refused:
        check(name)
    assert refused.value.code == 1
    assert "name" in refused.value.remark


def test_lengths_are_bounded() -> None:
    names.check_topic("t" * 127)
    names.check_topic(names.retry_topic("g" * 248))
    names.check_topic(names.dlq_topic("g" * 250))
    names.check_group("g" * limits.GROUP_LENGTH_MAX)
    for check, name in (
        (names.check_topic, "t" * 128),
        (names.check_topic, names.retry_topic("g" * 249)),
        (names.check_group, "g" * (limits.GROUP_LENGTH_MAX + 1)),
    ):
        with pytest.raises(Refused, match="shorten"):
            check(name)


def test_a_group_s_own_topics() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.is_retry_topic("%RETRY%g")
    assert not names.is_retry_topic("%DLQ%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert not names.is_dlq_topic("g")


def test_system_names() -> None:
    assert names.is_system_topic("TBW102")
    assert names.is_system_topic("rmq_sys_wheel_timer")
    assert not names.is_system_topic("TopicTest")
    assert names.NOT_SENDABLE_TOPICS < names.SYSTEM_TOPICS
    assert "TBW102" not in names.NOT_SENDABLE_TOPICS
    assert names.is_system_group("TOOLS_CONSUMER")
    assert names.is_system_group("CID_RMQ_SYS_whatever")
    assert not names.is_system_group("g")


def test_a_pop_retry_topic_of_the_second_generation_has_a_plus() -> None:
    names.check_topic("%RETRY%G+T")
    for name in ("%RETRY%G+T+", "G+T", "%DLQ%G+T"):
        with pytest.raises(Refused):
            names.check_topic(name)


@pytest.mark.parametrize(
    "name", ["b\n2026-01-01 CRITICAL epochmq", "b\r", "b\x1b[2J", "b\x7f", "b\x85", "b\u2028"]
)
def test_a_name_that_cannot_be_shown(name: str) -> None:
    with pytest.raises(HeaderError, match="cannot be shown"):
        names.check_shown(name)


@pytest.mark.parametrize("name", ["broker-a.example.org", "10.0.0.1:10911", "[::1]:1", "名 a"])
def test_a_name_that_can_be_shown(name: str) -> None:
    names.check_shown(name)
