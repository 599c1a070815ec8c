"""The key-value configuration: texts by namespace and key, in one JSON file.

The file has RocketMQ's form, {"configTable": {namespace: {key: value}}}, and a checksum as last
field, which RocketMQ ignores (`model/saved_file.py`). The whole file is written before a change is
answered; one write covers all changes that arrived meanwhile.
"""

from epochmq.base import limits
from epochmq.base.errors import EpochError, Refused
from epochmq.base.ports import Disk
from epochmq.model.saved_file import load_saved, report_replaced, seal
from epochmq.wire.bodies.body import Body, decode_answer, encode_body
from epochmq.wire.codes import ResponseCode

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of order configurations: topic -> "brokerA:4;brokerB:4"."""

_FAILED = ResponseCode.SYSTEM_ERROR


class KvFile(Body):
    """The content of the file."""

    config_table: dict[str, dict[str, str]] = {}


class KvConfig:
    """The key-value table and its file `name` on `disk`."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._tables: dict[str, dict[str, str]] = {}
        self._saved = b""
        """The content of the file without its checksum."""
        self._bytes = 0

    def load(self) -> None:
        """Read the file, or its `.bak` with an ERROR line; without both the table is empty.

        Raises:
            StoreDamaged: neither can be read, or the checksum is wrong.
        """
        loaded = load_saved(
            self._disk,
            self._name,
            _parse,
            self._fill,
            what="the key-value configuration",
            source="another name server",
        )
        if loaded is None:
            return
        self._saved = self.encode()
        if loaded.replaced:
            report_replaced(
                self._disk, self._name, loaded.replaced, "the changes after it are lost"
            )
            self.write(self._saved)

    def get(self, namespace: str, key: str) -> str | None:
        """Return the value of an entry, or None."""
        return self._tables.get(namespace, {}).get(key)

    def list(self, namespace: str) -> dict[str, str] | None:
        """Return all entries of a namespace; None if the namespace never had an entry."""
        return self._tables.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set an entry; the caller saves it later. Raises `Refused` if the entry or table is too
        large.
        """
        size = _size(namespace, key, value)
        if size > limits.KV_ENTRY_BYTES_MAX:
            raise Refused(_FAILED, f"more than {limits.KV_ENTRY_BYTES_MAX} bytes in one entry")
        before = self.get(namespace, key)
        if before is not None:
            size -= _size(namespace, key, before)
        if size > 0 and self._bytes + size > limits.KV_BYTES_MAX:
            raise Refused(_FAILED, f"more than {limits.KV_BYTES_MAX} bytes in all entries together")
        self._bytes += size
        self._tables.setdefault(namespace, {})[key] = value

    def delete(self, namespace: str, key: str) -> bool:
        """Remove an entry; the caller saves later. Return False if there is none."""
        value = self.get(namespace, key)
        if value is None:
            return False
        self._bytes -= _size(namespace, key, value)
        del self._tables[namespace][key]
        return True

    # Saving ----------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return the whole table as JSON."""
        return encode_body(KvFile(self._tables))

    def write(self, data: bytes) -> None:
        """Write `data` with its checksum to the file. It blocks, and may run in another thread."""
        self._disk.write_file(self._name, seal(data), backup=True)

    def write_done(self, data: bytes, error: EpochError | None) -> Refused | None:
        """Note the result of a write; after a failure the table is that of the file again.

        Returns:
            The refusal for the callers that made the changes; None after a success.
        """
        if error is None:
            self._saved = data
            return None
        self._fill(_parse(self._saved) if self._saved else KvFile({}))
        return Refused(_FAILED, f"not changed, for it cannot be saved: {error}")

    def save(self) -> None:
        """Write the table and wait for it. Raises `Refused` if that fails."""
        data = self.encode()
        error: EpochError | None = None
        try:
            self.write(data)
        except EpochError as caught:
            error = caught
        refused = self.write_done(data, error)
        if refused is not None:
            raise refused

    def _fill(self, content: KvFile) -> None:
        self._tables = content.config_table
        self._bytes = sum(
            _size(namespace, key, value)
            for namespace, table in self._tables.items()
            for key, value in table.items()
        )


def _parse(data: bytes) -> KvFile:
    return decode_answer(KvFile, data)


def _size(*texts: str) -> int:
    """Return about how many bytes an entry takes in the file."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts)
