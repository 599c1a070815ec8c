"""Codes, versions and languages by number."""

import pytest

from epochmq.wire import codes
from epochmq.wire.codes import Language, RequestCode, ResponseCode


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("SEND_MESSAGE", 10),
        ("PULL_MESSAGE", 11),
        ("HEART_BEAT", 34),
        ("REGISTER_BROKER", 103),
        ("GET_ROUTEINFO_BY_TOPIC", 105),
        ("SEND_MESSAGE_V2", 310),
        ("SEND_BATCH_MESSAGE", 320),
        ("LITE_PULL_MESSAGE", 361),
        ("QUERY_ASSIGNMENT", 400),
        ("BROKER_HEARTBEAT", 904),
        ("CONTROLLER_APPLY_BROKER_ID", 1013),
        ("POP_MESSAGE", 200050),
        ("BATCH_ACK_MESSAGE", 200151),
    ],
)
def test_request_codes(name: str, number: int) -> None:
    assert RequestCode[name] == number


@pytest.mark.parametrize(
    ("name", "number"),
    [("SUCCESS", 0), ("SYSTEM_ERROR", 1), ("PULL_OFFSET_MOVED", 21), ("GO_AWAY", 1500)],
)
def test_response_codes(name: str, number: int) -> None:
    assert ResponseCode[name] == number


@pytest.mark.parametrize("code", [*RequestCode])
def test_every_request_code_survives_16_bits(code: int) -> None:
    assert codes.widen(codes.narrow(code)) == code


@pytest.mark.parametrize(("code", "narrowed"), [(200050, 3442), (-1000, -1000), (0x8000, -0x8000)])
def test_narrow(code: int, narrowed: int) -> None:
    assert codes.narrow(code) == narrowed


def test_a_negative_code_stays_negative() -> None:
    assert codes.widen(-1) == -1


def test_languages_both_ways() -> None:
    assert codes.LANGUAGES[9] == "GO"
    assert codes.LANGUAGE_NUMBERS["RUST"] == 12
    assert codes.OUR_LANGUAGE in Language.__members__
    assert codes.UNKNOWN_LANGUAGE in Language.__members__


def test_we_show_500() -> None:
    assert codes.OUR_VERSION == 413
