"""Options changed at runtime, kept over restarts: config/broker.properties in the store.

The operator's own file is never written. At the next start the changes override it; a key that is
no longer mutable is skipped with a warning, so that an old file cannot prevent a start.
"""

import re
from collections.abc import Callable, Mapping

from epochmq.base.errors import ConfigError
from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.base.ports import Disk
from epochmq.broker.config.options import BrokerOptions, change_options
from epochmq.model.crc import crc32

FILE = "config/broker.properties"
_SAVED = re.compile(rb"epochmqSaved ([0-9a-f]{8})")
_ZEROS = b"0" * 8


def read_overrides(disk: Disk) -> dict[str, str]:
    """Return key and text of each change; raises `ConfigError` when the file cannot be read."""
    data = disk.read_file(FILE)
    if data is None:
        return {}
    found = _SAVED.search(data)
    if found is not None and crc32(_unsealed(data, found)) != int(found[1], 16):
        problem = f"{FILE} does not match its checksum: it was damaged, or edited by hand. Correct"
        raise ConfigError([f"{problem} it and remove its line with epochmqSaved, then start again"])
    try:
        return parse_properties(data.decode())
    except UnicodeDecodeError:
        raise ConfigError([f"{FILE} is not UTF-8 text; repair it or move it away"]) from None


def write_overrides(disk: Disk, changes: Mapping[str, str]) -> None:
    """Add `changes` to the file, atomically."""
    merged = {**read_overrides(disk), **changes}
    text = format_properties(sorted(merged.items())).encode()
    head = text + (b"" if text.endswith(b"\n") else b"\n") + b"# epochmqSaved "
    data = b"%s%08x\n" % (head, crc32(head + _ZEROS + b"\n"))
    disk.write_file(FILE, data, backup=True)


def _unsealed(data: bytes, found: re.Match[bytes]) -> bytes:
    """Return the bytes that the checksum covers."""
    at, end = found.span(1)
    return data[:at] + _ZEROS + data[end:]


def apply_overrides(
    options: BrokerOptions, disk: Disk, wall: int, warn: Callable[[str], None]
) -> BrokerOptions:
    """Return `options` with the earlier runtime changes; warns about changes that are not valid any
    more."""
    for key, text in read_overrides(disk).items():
        try:
            options = change_options(options, {key: text}, wall)
        except ConfigError as error:
            warn(f"{FILE}: {error}; the line is left out")
    return options
