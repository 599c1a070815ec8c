"""The start of `epochmq` in an archive of `epochmq pipeline package`: unpacks the archive once.

The archive holds a copy of this file as `epochmq/__init__.py`. Python loads no compiled modules
from a zip file, so the first import on a machine unpacks the archive into a directory of this user,
and EpochMQ is then imported from there. Later imports, also of other processes, use the same
directory: its name contains a digest of the contents.

Uses the standard library only. Set EPOCHMQ_UNPACK_DIR to unpack elsewhere than in the directory for
temporary files.
"""

import importlib
import json
import os
import shutil
import stat
import sys
import tempfile
import zipfile
from pathlib import Path

MANIFEST = "epochmq-package.json"
"""Name of the archive's manifest: digest, versions, and the platform that it was built for."""
CONTENTS = "contents/"
"""Directory of the archive that is unpacked."""
UNPACK_DIR = "EPOCHMQ_UNPACK_DIR"


def platform_of_python() -> dict[str, str]:
    """Return what compiled modules depend on: the version of Python, the system, the processor."""
    system = os.uname()
    return {
        "python": str(sys.implementation.cache_tag),
        "system": system.sysname,
        "machine": system.machine,
    }


def check_platform(built_for: dict[str, str]) -> None:
    """Raise `ImportError` unless the archive was built for this Python."""
    here = platform_of_python()
    if built_for != here:
        raise ImportError(
            f"this archive of EpochMQ was built for {' '.join(built_for.values())}, but Python is"
            f" {' '.join(here.values())} here ({sys.executable}): build it with the Python of the"
            " cluster's nodes (`epochmq pipeline package`)"
        )


def unpack(archive: str) -> Path:
    """Unpack `archive` unless that was done before; return the directory with the contents.

    Raises:
        ImportError: the archive is for another Python, or the directory belongs to another user.
        OSError: the contents cannot be written.
    """
    with zipfile.ZipFile(archive) as file:
        manifest = json.loads(file.read(MANIFEST))
        check_platform(manifest["platform"])
        parent = Path(os.environ.get(UNPACK_DIR) or tempfile.gettempdir(), f"epochmq-{os.getuid()}")
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(parent)
        home = parent / str(manifest["digest"])
        if home.is_dir():
            return home
        # Other processes may unpack at the same time: the first one to rename wins.
        copy = Path(tempfile.mkdtemp(dir=parent))
        try:
            for name in file.namelist():
                if name.startswith(CONTENTS):
                    file.extract(name, copy)
            (copy / CONTENTS).rename(home)
        except OSError:
            if not home.is_dir():
                raise
        finally:
            shutil.rmtree(copy, ignore_errors=True)
    return home


def check_owner(directory: Path) -> None:
    """Raise `ImportError` if other users can change the modules in `directory`."""
    found = directory.lstat()
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or writable:
        raise ImportError(
            f"{directory} is not a directory that only this user can change: remove it, or set"
            f" {UNPACK_DIR} to a directory of this user"
        )


def import_unpacked(archive: str) -> None:
    """Unpack `archive`, and import `epochmq` from the directory instead of from the archive."""
    home = unpack(archive)
    sys.path.insert(0, str(home / "code"))
    sys.path.append(str(home / "packages"))  # packages that are installed here win
    del sys.modules["epochmq"]
    importlib.import_module("epochmq")


if __name__ == "epochmq":
    import_unpacked(globals()["__loader__"].archive)
