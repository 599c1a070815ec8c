"""Retry topics of both generations, and what a pop reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.pop.pop_records import (
    NORMAL,
    RETRY_V1,
    RETRY_V2,
    mark_of,
    retry_name,
    revive_topic,
    sources,
    topic_of_retries,
)


def test_both_generations_of_retry_topics() -> None:
    assert retry_name("G", "T", NORMAL) == "T"
    assert retry_name("G", "T", RETRY_V1) == "%RETRY%G_T"
    assert retry_name("G", "T", RETRY_V2) == "%RETRY%G+T"


def test_a_retry_of_a_retry_stays_where_it_is() -> None:
    assert retry_name("G", "%RETRY%G_T", RETRY_V2) == "%RETRY%G_T"
    assert sources("G", "%RETRY%G_T") == ("%RETRY%G_T",)


def test_a_mark_is_told_by_the_name() -> None:
    assert [mark_of(name) for name in ("T", "%RETRY%G_T", "%RETRY%G+T")] == ["0", "1", "2"]


def test_a_pop_reads_three_topics() -> None:
    assert sources("G", "T") == ("T", "%RETRY%G_T", "%RETRY%G+T")


def test_the_revive_topic_is_the_clusters() -> None:
    assert revive_topic("c") == "rmq_sys_REVIVE_LOG_c"


NAMES = st.text("aT_-%9", min_size=1, max_size=8)


@given(group=NAMES, topic=NAMES, mark=st.sampled_from([RETRY_V1, RETRY_V2]))
def test_the_topic_of_a_retry_topic(group: str, topic: str, mark: str) -> None:
    assert topic_of_retries(group, retry_name(group, topic, mark)) == topic


@pytest.mark.parametrize("topic", ["T", "%RETRY%G", "%RETRY%G_", "%RETRY%other_T", "%DLQ%G_T"])
def test_other_topics_have_none(topic: str) -> None:
    assert topic_of_retries("G", topic) is None
