"""What is raised where the bytes are no record: where, why, and how to go on behind it."""

from typing import Literal

from epochmq.model.record import RecordError

Kind = Literal["nothing", "torn", "damaged"]
"""No magic number; a record that the data ends within; a record that contradicts itself."""


class CorruptRecord(RecordError):
    """The bytes at `offset_in_buffer` are no whole, consistent record.

    `kind` tells the cases apart (as `model.record.check` does). `resume_at` is the next record's
    place when this one's size can be believed, else None.
    """

    def __init__(
        self,
        offset_in_buffer: int,
        why: str,
        kind: Kind = "damaged",
        resume_at: int | None = None,
    ) -> None:
        super().__init__(f"no sound record at byte {offset_in_buffer}: {why}")
        self.offset_in_buffer = offset_in_buffer
        self.why = why
        self.kind: Kind = kind
        self.resume_at = resume_at

    def moved(self, by: int) -> "CorruptRecord":
        """The same with places `by` bytes further on."""
        resume = None if self.resume_at is None else self.resume_at + by
        return CorruptRecord(self.offset_in_buffer + by, self.why, self.kind, resume)
