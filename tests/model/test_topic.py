"""TopicConfig and permissions."""

import msgspec
import pytest

from epochmq.model import topic
from epochmq.model.topic import TopicConfig


def test_all_fields_are_written_under_upstream_s_names() -> None:
    found = msgspec.json.decode(msgspec.json.encode(TopicConfig("T")))
    assert found == {
        "topicName": "T",
        "readQueueNums": 16,
        "writeQueueNums": 16,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": {},
    }


def test_missing_fields_take_defaults_and_unknown_ones_are_ignored() -> None:
    config = msgspec.json.decode(b'{"topicName":"T","perm":2,"new":[1]}', type=TopicConfig)
    assert config == TopicConfig("T", perm=2)
    assert config.attributes is not TopicConfig("T").attributes


@pytest.mark.parametrize(
    ("perm", "text"), [(6, "RW-"), (7, "RWX"), (2, "-W-"), (4, "R--"), (0, "---"), (1, "--X")]
)
def test_permission_bits(perm: int, text: str) -> None:
    assert topic.format_perm(perm) == text
    assert topic.is_readable(perm) == ("R" in text)
    assert topic.is_writable(perm) == ("W" in text)
