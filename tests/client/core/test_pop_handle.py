"""Receipt handles: their words, built from an answer as Java builds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import PeerError, UsageError
from epochmq.client.core.pop_state import (
    NORMAL,
    RETRY_V1,
    RETRY_V2,
    PopHandle,
    complete,
    handle_of,
    mark_of,
    parse,
    retry_topic_of,
)
from epochmq.model.message import StoredMessage
from epochmq.wire.headers.pop_headers import PopResponseHeader

V1, V2 = "%RETRY%g_T", "%RETRY%g+T"


def stored(offset: int, topic: str = "T", queue_id: int = 0, **properties: str) -> StoredMessage:
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        offset=0,
        size=0,
        body=b"",
        flag=0,
        sys_flag=0,
        born_wall_ms=0,
        born_host=("127.0.0.1", 1),
        store_wall_ms=0,
        store_host=("127.0.0.1", 1),
        reconsume_times=0,
        prepared_offset=0,
        properties=properties,
        body_crc=0,
    )


def header(
    start: str | None = None,
    offsets: str | None = None,
    counts: str | None = None,
    revive: int = 3,
) -> PopResponseHeader:
    return PopResponseHeader(1000, 60000, revive, 0, start, offsets, counts)


def completed(messages: list[StoredMessage], answer: PopResponseHeader) -> list[str]:
    complete(messages, answer, topic="T", group="g", broker_name="b")
    return [message.properties["POP_CK"] for message in messages]


def test_eight_words() -> None:
    text = "5 1000 60000 3 1 broker-a 2 7"
    handle = parse(text)
    assert handle == PopHandle(5, 1000, 60000, 3, "1", "broker-a", 2, 7)
    assert str(handle) == text
    assert not handle.is_ordered
    assert parse("5 1000 60000 999 0 b 2 7").is_ordered
    assert str(handle.renewed(2000, 30000, 4)) == "7 2000 30000 4 1 broker-a 2 7"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5 1000 60000 3 1 b 2",
        "5 1000 60000 3 9 b 2 7",
        "x 1000 60000 3 1 b 2 7",
        "1 1 1 1 1 b 2 y",
    ],
)
def test_no_handle(text: str) -> None:
    with pytest.raises(UsageError, match="not a receipt handle"):
        parse(text)
    with pytest.raises(UsageError):
        handle_of(stored(1, POP_CK=text))


def test_topics_and_marks() -> None:
    for mark, topic in ((NORMAL, "T"), (RETRY_V1, V1), (RETRY_V2, V2)):
        assert retry_topic_of("T", "g", mark) == topic
        assert mark_of(topic, "T", "g") == mark
    assert parse("5 1000 60000 3 2 b 2 7").real_topic("T", "g") == V2


def test_messages_of_several_queues_and_of_the_retry_topic() -> None:
    messages = [stored(7), stored(5), stored(9, queue_id=1), stored(2, V1), stored(4, V2)]
    answer = header("0 0 5;0 1 9;1 0 2;2 0 4", "0 0 5,7;0 1 9;1 0 2;2 0 4", None)
    assert completed(messages, answer) == [
        "5 1000 60000 3 0 b 0 7",
        "5 1000 60000 3 0 b 0 5",
        "9 1000 60000 3 0 b 1 9",
        "2 1000 60000 3 1 b 0 2",
        "4 1000 60000 3 2 b 0 4",
    ]
    assert {message.topic for message in messages} == {"T"}
    assert {message.properties["1ST_POP_TIME"] for message in messages} == {"1000"}


@pytest.mark.parametrize("mark", [NORMAL, RETRY_V1])
def test_what_was_popped_of_a_retry_topic_itself(mark: str) -> None:
    """Brokers call it a retry by its name; but there is no other topic that it is a retry of."""
    topic = "%RETRY%g"
    messages = [stored(7, topic), stored(9, topic)]
    answer = header(f"{mark} 0 5", f"{mark} 0 7,9")
    complete(messages, answer, topic=topic, group="g", broker_name="b")
    handles = [handle_of(message) for message in messages]
    assert [str(handle) for handle in handles] == [
        "5 1000 60000 3 0 b 0 7",
        "5 1000 60000 3 0 b 0 9",
    ]
    assert {handle.real_topic(topic, "g") for handle in handles} == {topic}


def test_without_texts_the_first_of_a_queue_is_the_check_point() -> None:
    messages = [stored(8), stored(6, **{"1ST_POP_TIME": "7"})]
    assert completed(messages, header()) == ["6 1000 60000 3 0 b 0 8", "6 1000 60000 3 0 b 0 6"]
    assert messages[1].properties["1ST_POP_TIME"] == "7"


def test_what_the_broker_wrote_itself_stays() -> None:
    """5.3 answers a retried message with its own topic and a handle that names the retry's."""
    own = "1 900 60000 2 1 b 0 1"
    messages = [stored(1, POP_CK=own), stored(5)]
    assert completed(messages, header("0 0 5;1 0 1", "0 0 5;1 0 1")) == [
        own,
        "5 1000 60000 3 0 b 0 5",
    ]


def test_tries_so_far_of_an_ordered_pop() -> None:
    messages = [stored(5), stored(6), stored(9, queue_id=1)]
    counts = "0 0 2;0 qo0%6 4;0 qo1%9 0"
    completed(messages, header("0 0 5;0 1 9", "0 0 5,6;0 1 9", counts, revive=999))
    assert [message.reconsume_times for message in messages] == [2, 4, 0]
    messages = [stored(5)]
    completed(messages, header("0 0 5", "0 0 5", "0 0 2"))
    assert messages[0].reconsume_times == 0


@pytest.mark.parametrize(
    "answer",
    [
        header("0 0", "0 0 5"),
        header("0 0 x", "0 0 5"),
        header("0 0 5", "0 0 5,x"),
        header("0 0 5", "0 0 5"),
    ],
)
def test_an_answer_that_does_not_fit(answer: PopResponseHeader) -> None:
    with pytest.raises(PeerError):
        completed([stored(5), stored(6)], answer)


@given(
    st.builds(
        PopHandle,
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 300_000),
        st.integers(0, 999),
        st.sampled_from("012"),
        st.from_regex(r"[a-zA-Z0-9_-]+", fullmatch=True),
        st.integers(0, 1023),
        st.integers(0, 2**63 - 1),
    )
)
def test_every_handle_comes_back(handle: PopHandle) -> None:
    assert parse(str(handle)) == handle
