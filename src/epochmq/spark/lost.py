"""Messages that a reader was to give and that are no longer there, said exactly."""

from dataclasses import dataclass

from epochmq.base.errors import EpochError
from epochmq.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class Lost:
    """Queue offsets `start` to `stop` (exclusive) of `queue`, and why they are gone."""

    queue: MessageQueue
    start: int
    stop: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.queue}: queue offsets {self.start} to {self.stop - 1}"
            f" ({self.stop - self.start} messages) are not there: {self.why}"
        )


class DataLost(EpochError):
    """Raised for lost messages unless the caller said that it goes on without them."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(
            f"{lost}. Set failOnDataLoss=false to go on without them, or begin a new query where"
            " the data begins"
        )
        self.lost = lost
