"""Every code has one handler, and none of them minds garbage."""

import pkgutil
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.fake_node import FakeNode
from tests.broker.fake_session import FakeSession

from epochmq.base.errors import HeaderError, Refused
from epochmq.broker import requests
from epochmq.broker.requests.request_table import REQUEST_TABLE
from epochmq.wire.command import Command

MODULES = [
    import_module(f"{requests.__name__}.{module.name}")
    for module in pkgutil.iter_modules(requests.__path__)
]
_FIELDS = """
    topic consumerGroup group producerGroup queueId offset commitOffset timestamp key maxNum
    beginTimestamp endTimestamp clientID clientId groupName statsName statsKey index count
    isOrder srcGroup destGroup compareGroup perm readQueueNums writeQueueNums defaultTopic
    topicFilterType order attributes fromOffset toOffset blockBytes epoch maxBytes endOffset tags
    tranStateTableOffset commitLogOffset commitOrRollback msgId
"""
FIELDS = _FIELDS.split()
texts = st.sampled_from(["", "T", "g", "-1", "0", "1", "9" * 19, "9" * 40, "true", "\x00", "é|%"])
bodies = st.sampled_from([b"", b"{}", b"[]", b"null", b"{", b"\xff", b'{"clientID":null}', b"1=2"])


def test_every_handler_is_in_the_table_and_no_code_is_served_twice() -> None:
    codes = [code for module in MODULES for code in getattr(module, "HANDLERS", ())]
    assert sorted(codes) == sorted(REQUEST_TABLE)


@pytest.mark.fuzz
@given(
    code=st.sampled_from(sorted(REQUEST_TABLE)),
    ext=st.none() | st.dictionaries(st.sampled_from(FIELDS), texts, max_size=8),
    body=bodies,
)
def test_garbage_is_refused_or_answered(code: int, ext: dict[str, str] | None, body: bytes) -> None:
    node = FakeNode()
    node.topics.ensure("T", 2, 6, 0)
    node.fake.put("T", 0, b"x")
    try:
        REQUEST_TABLE[code](node, Command(code, ext=ext, body=body), FakeSession(), 0)
    except (Refused, HeaderError):
        pass
