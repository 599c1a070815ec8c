"""The offset file of a broadcasting member; brokers keep no offsets for it."""

import json
from pathlib import Path

from epochmq.base.errors import ConfigError
from epochmq.model.topic import MessageQueue
from epochmq.runtime.disk import RealDisk


class LocalOffsets:
    """The file `<directory>/<group>.json`: {"topic@broker@queue": offset}, replaced atomically."""

    def __init__(self, directory: Path, group: str) -> None:
        self._directory = directory
        self._name = f"{group.replace('%', '_').replace('|', '_')}.json"
        self._offsets: dict[str, int] | None = None

    def get(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of `queue`, or None. Raises `ConfigError` for an unreadable
        file.
        """
        return self._load().get(_key(queue))

    def save(self, unsaved: dict[MessageQueue, int]) -> None:
        """Store the offsets of some queues; the offsets of other queues stay."""
        if not unsaved:
            return
        offsets = self._load()
        offsets.update({_key(queue): offset for queue, offset in unsaved.items()})
        RealDisk(str(self._directory)).write_file(self._name, json.dumps(offsets).encode())

    def _load(self) -> dict[str, int]:
        if self._offsets is None:
            self._offsets = self._read()
        return self._offsets

    def _read(self) -> dict[str, int]:
        data = RealDisk(str(self._directory)).read_file(self._name)
        if data is None:
            return {}
        try:
            return {str(key): int(value) for key, value in json.loads(data).items()}
        except (ValueError, AttributeError, TypeError) as error:
            path = self._directory / self._name
            problem = f"{path} is not readable ({error}); remove it to start with no offsets"
            raise ConfigError([problem]) from None


def _key(queue: MessageQueue) -> str:
    return f"{queue.topic}@{queue.broker_name}@{queue.queue_id}"
