"""Names of topics and groups for the queues and exchanges of kombu."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.kombu.broker_names import fanout_topic_of, group_of, topic_of
from epochmq.model.names import TOOLS_GROUP, check_group, check_topic


def test_a_plain_name_stays() -> None:
    assert topic_of("celery") == group_of("celery") == "celery"
    assert fanout_topic_of("news") == "kombu-fanout-news"


def test_other_characters_are_escaped() -> None:
    assert topic_of("celery@host.celery.pidbox") == "celery%40host%2ecelery%2epidbox"


def test_escapes_are_not_mixed_up() -> None:
    assert topic_of("\u1f60" + "0") != topic_of("\U0001f600")


def test_the_group_of_the_tools_is_not_used() -> None:
    assert group_of(TOOLS_GROUP) == f"kombu-{TOOLS_GROUP}"


@pytest.mark.parametrize("queue", ["", "a" * 121, "." * 41])
def test_a_name_without_a_topic_is_refused(queue: str) -> None:
    with pytest.raises(UsageError, match="1 to 120"):
        topic_of(queue)


@given(st.text(min_size=1, max_size=15), st.text(min_size=1, max_size=15))
def test_each_queue_has_a_topic_of_its_own(one: str, other: str) -> None:
    assert (topic_of(one) == topic_of(other)) == (one == other)
    check_topic(topic_of(one))
    check_group(group_of(one))
