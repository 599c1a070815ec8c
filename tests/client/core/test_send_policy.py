"""Answers to a send: results, repeats and errors as RocketMQ's producer tells them apart."""

import pytest

from epochmq.client.core.send_policy import SendStatus, SendVerdict, judge, status_of


@pytest.mark.parametrize("code", [0, 10, 11, 12])
def test_stored_codes_are_results(code: int) -> None:
    assert judge(code) is SendVerdict.STORED
    assert isinstance(status_of(code), SendStatus)


@pytest.mark.parametrize("code", [1, 2, 16, 17, 204, 205, 1500])
def test_another_broker_may_take_it(code: int) -> None:
    assert judge(code) is SendVerdict.RETRY


@pytest.mark.parametrize("code", [13, 26, 99_999])
def test_the_rest_is_an_error(code: int) -> None:
    assert judge(code) is SendVerdict.RAISE


def test_a_broker_that_is_no_master_now_is_left() -> None:
    assert judge(14) is SendVerdict.ELSEWHERE
