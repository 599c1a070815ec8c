"""What `updateControllerConfig` changed, kept in a properties file of this controller alone."""

import os
from collections.abc import Mapping

from epochmq.base.errors import ConfigError, EnvironmentFault, Refused
from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.base.ports import Disk
from epochmq.wire.codes import ResponseCode


class ConfigFile:
    """The file `path`; `disk` is rooted at its directory. Without a disk nothing is kept."""

    def __init__(self, path: str, disk: Disk | None) -> None:
        self._name = os.path.basename(path)
        self._disk = disk

    def load(self) -> dict[str, str]:
        """The keys in it; errors: `ConfigError` that names the file."""
        data = None if self._disk is None else self._disk.read_file(self._name)
        if data is None:
            return {}
        try:
            return parse_properties(data.decode())
        except (ConfigError, UnicodeDecodeError) as error:
            raise ConfigError([f"option 'configStorePath': {self._name}: {error}"]) from None

    def save(self, changes: Mapping[str, str]) -> None:
        """Put `changes` into the file; `Refused` when it cannot be written."""
        if self._disk is None:
            return
        try:
            kept = {**self.load(), **changes}
            text = format_properties(sorted(kept.items()))
            self._disk.write_file(self._name, text.encode(), backup=True)
        except EnvironmentFault as error:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"not changed, for it cannot be saved: {error}"
            ) from None
