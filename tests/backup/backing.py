"""Makes and restores backups of a small cluster, as `epochmq backup` does."""

from pathlib import Path

from epochmq import Message
from epochmq.backup.backup_files import BackupFiles, open_backups
from epochmq.backup.backup_source import BackupSource
from epochmq.backup.create_backup import Created, create_backup
from epochmq.backup.restore_backup import restore_backup
from epochmq.client.aio import Admin
from epochmq.client.sync import Producer
from epochmq.testing import MiniCluster
from epochmq.testing.mini_cluster import CLUSTER, GROUP

TOPIC = "orders"


def backups(url: Path | str) -> BackupFiles:
    return BackupFiles(open_backups(str(url)), CLUSTER, GROUP)


async def back_up(cluster: MiniCluster, files: BackupFiles) -> Created:
    async with Admin(cluster.namesrv) as admin:
        return await create_backup(BackupSource(admin, CLUSTER, GROUP), files)


def send(cluster: MiniCluster, first: int, count: int, size: int = 0, topic: str = TOPIC) -> None:
    """Send messages with increasing numbers as keys and as the front of their bodies."""
    with Producer(cluster.namesrv, "P") as producer:
        for number in range(first, first + count):
            body = b"%d" % number
            producer.send(Message(topic, body.ljust(size, b"."), keys=(f"k{number}",)))


def restore(files: BackupFiles, directory: Path, replicas: int = 1) -> None:
    """Restore the newest snapshot for the brokers of a `MiniCluster` in `directory`."""
    snapshot = files.latest()
    assert snapshot is not None
    for number in range(1, replicas + 1):
        restore_backup(files, snapshot, directory / f"broker-{number}")


def numbers(cluster: MiniCluster, topic: str = TOPIC) -> list[int]:
    """The numbers of the messages in a topic, sorted."""
    return sorted(int(m.body.rstrip(b".")) for m in cluster.messages(topic))
