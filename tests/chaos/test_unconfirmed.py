"""What the comparison of unconfirmed reads makes of what it saw."""

from collections import Counter

from chaos.unconfirmed import Seen, report

TAIL = [(20, b"tail-0"), (21, b"tail-1"), (22, b"tail-2")]


def test_what_was_read_and_is_there_no_more() -> None:
    seen = Seen("java", Counter({"SEND_OK": 3}), TAIL, [(20, b"after-0"), (21, b"tail-1")])
    assert seen.gone == [TAIL[0], TAIL[2]]
    assert seen.replaced == [(20, b"tail-0", b"after-0")]
    said = report(seen)
    assert "3 x SEND_OK" in said
    assert "of these gone afterwards: 2" in said
    assert "queue offset 20: read tail-0, now after-0" in said


def test_a_reader_without_messages_lost_nothing() -> None:
    seen = Seen("epochmq", Counter({"SEND_OK": 3}), [], [(20, b"after-0")])
    assert (seen.gone, seen.replaced) == ([], [])
    assert "read before the failover: 0" in report(seen)
