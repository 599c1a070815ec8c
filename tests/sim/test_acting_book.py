import pytest
from sim.acting.acting_book import Book
from sim.acting.acting_clients import Queue
from sim.kernel.violation import Violation

QUEUE = Queue("a", "T0", 0)


def book_of(kind: str, *, acked: bool, torn: bool) -> Book:
    """Two messages; the first of `kind` was read at offset 3."""
    book = Book(torn={"a"} if torn else set())
    book.call(kind, QUEUE).acked = acked
    book.call("plain", QUEUE)
    book.delivered(QUEUE, 3, b"0:x")
    return book


@pytest.mark.parametrize(
    ("kind", "acked", "torn"),
    [("plain", False, False), ("plain", True, True), ("level", True, False)],
)
def test_a_place_is_given_once(kind: str, acked: bool, torn: bool) -> None:
    with pytest.raises(Violation, match="INV-22"):
        book_of(kind, acked=acked, torn=torn).delivered(QUEUE, 3, b"1:x")


@pytest.mark.parametrize(("kind", "acked"), [("plain", False), ("level", True)])
def test_what_only_a_lost_disk_had_leaves_its_place(kind: str, acked: bool) -> None:
    book = book_of(kind, acked=acked, torn=True)
    book.delivered(QUEUE, 3, b"1:x")
    assert book.places[QUEUE, 3] == 1
