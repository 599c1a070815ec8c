"""A fresh request may not be held, passes everything and suggests the master."""

from tests.broker.fake_session import FakeSession

from epochmq.broker.consume.long_polling import PullRequest


def test_defaults() -> None:
    session = FakeSession()
    request = PullRequest(
        session=session,
        opaque=7,
        code=11,
        arrived_ms=5,
        group="G",
        topic="T",
        queue_id=1,
        offset=2,
        max_count=32,
    )
    assert (request.session, request.opaque, request.offset) == (session, 7, 2)
    assert request.deadline == 0
    assert request.accept is None
    assert request.verify is None
    assert request.suggested_broker == 0
    assert not request.binary
    assert not request.was_held
