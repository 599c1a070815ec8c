"""The properties file with the changes of `updateControllerConfig`, for this controller only."""

import os
from collections.abc import Mapping

from epochmq.base.errors import ConfigError, EnvironmentFault, Refused
from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.base.ports import Disk
from epochmq.model.crc import crc32
from epochmq.wire.codes import ResponseCode

CHECKSUM = b"# crc32="
"""Beginning of the first line, which RocketMQ reads as a comment. A file without it is accepted."""


def _with_checksum(text: bytes) -> bytes:
    return b"%s%08x\n%s" % (CHECKSUM, crc32(text), text)


def _checked(data: bytes) -> bytes:
    """Return the file as it is. Raises `ConfigError` if its checksum is wrong."""
    line, _newline, rest = data.partition(b"\n")
    if line.startswith(CHECKSUM) and line != b"%s%08x" % (CHECKSUM, crc32(rest)):
        raise ConfigError(
            ["its checksum is wrong: damaged, or edited; check each key and remove the first line"]
        )
    return data


class ConfigFile:
    """The file `path`; `disk` has the file's directory as root. Without a disk nothing is saved.

    While the file does not exist, `older` is read instead.
    """

    def __init__(self, path: str, disk: Disk | None, older: "ConfigFile | None" = None) -> None:
        self._name = os.path.basename(path)
        self._disk = disk
        self._older = older

    def load(self) -> dict[str, str]:
        """Return the options in the file. Raises `ConfigError` that names the file."""
        data = None if self._disk is None else self._disk.read_file(self._name)
        if data is None and self._older is not None:
            return self._older.load()
        if data is None:
            return {}
        try:
            return parse_properties(_checked(data).decode())
        except (ConfigError, UnicodeDecodeError) as error:
            raise ConfigError([f"option 'configStorePath': {self._name}: {error}"]) from None

    def save(self, changes: Mapping[str, str]) -> None:
        """Add `changes` to the file. Raises `Refused` if it cannot be written."""
        if self._disk is None:
            return
        try:
            kept = {**self.load(), **changes}
            text = format_properties(sorted(kept.items()))
            self._disk.write_file(self._name, _with_checksum(text.encode()), backup=True)
        except EnvironmentFault as error:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"not changed, for it cannot be saved: {error}"
            ) from None
