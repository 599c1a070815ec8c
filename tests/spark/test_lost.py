"""The words for lost messages."""

from epochmq.model.topic import MessageQueue
from epochmq.spark.retry import DataLost, Lost


def test_the_range_and_the_way_on_are_said() -> None:
    lost = Lost(MessageQueue("t", "broker-a", 3), 5, 8, "they were deleted")
    error = DataLost(lost)
    assert error.lost is lost
    assert str(error) == (
        "t@broker-a:3: queue offsets 5 to 7 (3 messages) are not there: they were deleted."
        " Set failOnDataLoss=false to go on without them, or begin a new query where the data"
        " begins"
    )
