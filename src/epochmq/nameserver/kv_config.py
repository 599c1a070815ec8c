"""The key-value configuration: texts by namespace and key, kept in one JSON file.

File shape as upstream: {"configTable": {namespace: {key: value}}}; rewritten whole at every change,
before the change is answered.
"""

from epochmq.base import limits
from epochmq.base.errors import EpochError, HeaderError, Refused, StoreDamaged
from epochmq.base.ports import Disk
from epochmq.wire.bodies.base import Body, decode_body, encode_body
from epochmq.wire.codes import ResponseCode

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of order configurations: topic -> "brokerA:4;brokerB:4"."""

_FAILED = ResponseCode.SYSTEM_ERROR


class KvFile(Body):
    """The file's whole content."""

    config_table: dict[str, dict[str, str]] = {}


class KvConfig:
    """The table and its file `name` on `disk`."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._tables: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Read the file, if there is one; `StoreDamaged` when it is no such file."""
        data = self._disk.read_file(self._name)
        if not data:
            return
        try:
            self._tables = decode_body(KvFile, data).config_table
        except HeaderError as error:
            raise StoreDamaged(
                f"the key-value configuration {self._name} cannot be read ({error}); "
                "repair it or move it away"
            ) from None

    def get(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def list(self, namespace: str) -> dict[str, str] | None:
        """All of a namespace; None when nothing was ever put into it."""
        return self._tables.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set and save; `Refused` when there is too much of it or it cannot be saved."""
        if len(key) + len(namespace) + len(value) > limits.KV_ENTRY_BYTES_MAX:
            raise Refused(_FAILED, f"more than {limits.KV_ENTRY_BYTES_MAX} bytes in one entry")
        if self.get(namespace, key) is None and self._count() >= limits.KV_ENTRIES_MAX:
            raise Refused(_FAILED, f"more than {limits.KV_ENTRIES_MAX} entries")
        self._change({**self._tables, namespace: {**self._tables.get(namespace, {}), key: value}})

    def delete(self, namespace: str, key: str) -> None:
        """Remove and save; an entry that is not there is no error."""
        if self.get(namespace, key) is not None:
            left = {name: text for name, text in self._tables[namespace].items() if name != key}
            self._change({**self._tables, namespace: left})

    def _count(self) -> int:
        return sum(map(len, self._tables.values()))

    def _change(self, tables: dict[str, dict[str, str]]) -> None:
        try:
            self._disk.write_file(self._name, encode_body(KvFile(tables)), backup=True)
        except EpochError as error:
            raise Refused(_FAILED, f"not changed, for it cannot be saved: {error}") from error
        self._tables = tables
