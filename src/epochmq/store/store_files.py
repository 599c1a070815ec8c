"""The objects that read and write the files of one store."""

from dataclasses import dataclass

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk
from epochmq.store.checkpoint import Checkpoint
from epochmq.store.checksums import BlockChecksums
from epochmq.store.commit_log import CommitLog
from epochmq.store.message_index import Index
from epochmq.store.options import StoreOptions
from epochmq.store.queue_table import QueueTable, QueueTypes, unknown_type


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Holds what all parts of a store use: disk, options, and one object for each type of file.

    `StoreFiles.of` makes the objects and reads no file. `Recovery.run` reads the files.
    """

    disk: Disk
    options: StoreOptions
    log: CommitLog
    queues: QueueTable
    index: Index | None
    """None when the option `index` is off."""
    checkpoint: Checkpoint
    checksums: BlockChecksums

    @classmethod
    def of(
        cls,
        disk: Disk,
        options: StoreOptions,
        types: QueueTypes = unknown_type,
        boot: str = "",
    ) -> "StoreFiles":
        """Make the objects for `disk`; `types` and `boot` are those of `Store.open`."""
        log = CommitLog(disk, options)
        return cls(
            disk,
            options,
            log,
            QueueTable(disk, options, types),
            Index(disk, options) if options.index else None,
            Checkpoint(disk, boot),
            BlockChecksums(disk, log),
        )

    def close(self) -> None:
        """Close all files. This writes nothing."""
        self.log.close()
        self.queues.files.close()
        self.checksums.close()
        self.checkpoint.close()
        if self.index is not None:
            self.index.close()


# Restored backups ----------------------------------------------------------------------------

UNFINISHED_RESTORE = "unfinishedRestore"
"""A restore of a backup writes this file first and removes it last."""


def check_restored(disk: Disk) -> None:
    """Raise `StoreDamaged` if a backup was restored here and the restore did not end."""
    if disk.exists(UNFINISHED_RESTORE):
        raise StoreDamaged(
            "a backup was being restored here, and the restore did not end: run the same"
            " `epochmq backup restore` again"
        )
