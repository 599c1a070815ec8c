"""How long a broker has said nothing."""

from epochmq.client.core.retrying import Awaited


def test_silence_counts_only_while_a_call_waits() -> None:
    awaited = Awaited()
    assert not awaited.is_silent(10_000, 250)
    awaited.sent("T", 10_000)
    assert not awaited.is_silent(10_249, 250)
    assert awaited.is_silent(10_250, 250)
    awaited.sent("T", 10_300)
    assert awaited.is_silent(10_301, 250)
    awaited.ended(10_400)
    assert not awaited.is_silent(10_500, 250)
    assert awaited.is_silent(10_650, 250)
    awaited.ended(10_700)
    assert not awaited.is_silent(99_999, 250)
    assert awaited.topic == "T"
