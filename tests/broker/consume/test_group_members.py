"""Effects are values."""

from tests.broker.fake_session import FakeSession

from epochmq.broker.consume.client_tables import Expired, NotifyMembers


def test_effects_compare_by_value() -> None:
    session = FakeSession()
    assert NotifyMembers("g", (session,)) == NotifyMembers("g", (session,))
    assert Expired((session,)).notices == ()
