"""Receipt handles and the texts of an answer; handles are strangers' texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import Refused
from epochmq.broker.pop.receipt_handle import Infos, ReceiptHandle, parse_handle
from epochmq.wire.codes import ResponseCode


def test_a_handle_with_and_without_its_message() -> None:
    assert parse_handle("7 1700 60000 3 1 broker-a 2 9") == ReceiptHandle(
        7, 1700, 60000, 3, "1", "broker-a", 2, 9
    )
    assert parse_handle("7 1700 60000 3 0 b 2").offset is None
    by_the_proxy = "7 1700 60000 3 1 broker-a 2 9"
    for place in ("4711", "-1", "9" * 18):
        assert parse_handle(f"{by_the_proxy} {place}") == parse_handle(by_the_proxy)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "7 1700 60000 3 0 b",
        "7 1700 60000 3 3 b 2 9",
        "-7 1700 60000 3 0 b 2 9",
        "7 1700 60000 3 0 b 2 9 9 9",
        "7 1700 60000 3 0 b 2 9 x",
        "7 1700 60000 3 0 b 2 9 " + "9" * 19,
        "7  1700 60000 3 0 b 2 9",
        "7 1700 60000 3 0 b 2 9\n",
        "7 1700 60000 3 0 b 2 " + "9" * 19,
        "7 1700 60000 3 0 " + "b" * 600 + " 2 9",
        "٧ 1700 60000 3 0 b 2 9",
    ],
)
def test_what_no_broker_gives_out_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_handle(text)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


@given(st.text(max_size=80))
def test_nothing_but_a_refusal_comes_of_any_text(text: str) -> None:
    try:
        parse_handle(text)
    except Refused:
        pass


def test_the_texts_of_an_answer() -> None:
    infos = Infos()
    assert (infos.starts, infos.offsets, infos.counts) == ("", "", None)
    infos.add("0", 2, 5, [5, 7])
    infos.add("1", 0, 0, [0])
    infos.count("0", 2, {7: 3}, 0)
    assert infos.starts == "0 2 5;1 0 0"
    assert infos.offsets == "0 2 5,7;1 0 0"
    assert infos.counts == "0 qo2%7 3;0 2 0"
