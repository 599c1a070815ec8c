"""Effects are values."""

from tests.broker.fake_session import FakeSession

from epochmq.broker.clients.members import Expired, Notice


def test_effects_compare_by_value() -> None:
    session = FakeSession()
    assert Notice("g", (session,)) == Notice("g", (session,))
    assert Expired((session,)).notices == ()
