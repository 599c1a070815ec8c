"""Builds the archive for `spark-submit --py-files`: EpochMQ for nodes that do not have it.

The archive holds the Python code, the compiled library of this platform, and the packages that the
code needs besides numpy, pyarrow and PySpark. `archive_init` is its start.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import epochmq
from epochmq.base.errors import UsageError
from epochmq.spark import archive_init

CODE = ("epochmq", "pyspark_rocketmq", "pyspark_rocketmq_log")
"""Packages of EpochMQ."""
REQUIRED = ("msgspec",)
INCLUDED = ("isal", "uvloop", "lz4", "zstandard")
"""Distributions that the archive includes if they are installed here."""
_SUFFIXES = (".py", ".so", ".pyd", ".typed")
_DATE = (1980, 1, 1, 0, 0, 0)
"""One date for all files: the same contents make the same archive."""


@dataclass(frozen=True)
class ClusterPackage:
    """What was built."""

    path: Path
    size_bytes: int
    platform: dict[str, str]
    distributions: dict[str, str]
    """Versions of the included distributions, by name."""
    native: bool
    """Whether the compiled library is included; without it executors decode with numpy."""

    @property
    def summary(self) -> str:
        """A text of a few lines for a person."""
        packages = ", ".join(f"{name} {version}" for name, version in self.distributions.items())
        native = "with" if self.native else "WITHOUT"
        return (
            f"{self.path}: {self.size_bytes / 1e6:.1f} MB, for {' '.join(self.platform.values())},"
            f" {native} the compiled library, with {packages}.\n"
            "The nodes need the same version of Python, numpy and pyarrow.\n"
            f"    spark-submit --py-files {self.path} APP.py\n"
            "APP.py calls epochmq.spark.register(spark) before it uses the format."
        )


def default_name() -> str:
    """Return the file name for this version and platform."""
    platform = archive_init.platform_of_python()
    python = platform["python"].replace("cpython-", "cp")
    system, machine = platform["system"].lower(), platform["machine"]
    return f"epochmq-{epochmq.__version__}-{python}-{system}_{machine}.zip"


def build(path: Path, extra: Iterable[str] = ()) -> ClusterPackage:
    """Write the archive to `path`, replacing a file that is there only when it is complete.

    Args:
        path: the file; its name must end in `.zip`, because Spark ignores other names.
        extra: names of further installed distributions, such as `fastavro`. Their own dependencies
            are not included.

    Raises:
        UsageError: the name does not end in `.zip`, or a distribution is not installed.
        OSError: the file cannot be written.
    """
    if path.suffix != ".zip":
        raise UsageError(f"{path}: name it .zip, or Spark does not add it to the path of workers")
    versions: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for package in CODE:
        files |= _files_of(Path(epochmq.__file__).parents[1], package)
    native = any(name.endswith(".so") for name in files)
    for name in (*REQUIRED, *INCLUDED, *extra):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name in INCLUDED:
                continue
            raise UsageError(
                f"{name} is not installed here, so it cannot be included: pip install {name}"
            ) from None
        versions[found.name] = found.version
        files.update(_files_of_distribution(found))
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name} {len(files[name])}\n".encode() + files[name])
    platform = archive_init.platform_of_python()
    manifest = {
        "epochmq": epochmq.__version__,
        "digest": digest.hexdigest(),
        "platform": platform,
        "distributions": versions,
    }
    start = Path(archive_init.__file__).read_bytes()
    files = {f"{archive_init.CONTENTS}{name}": data for name, data in files.items()}
    files[archive_init.MANIFEST] = json.dumps(manifest, indent=2).encode()
    files["epochmq/__init__.py"] = start
    for package in CODE[1:]:
        name = f"{package}/__init__.py"
        files[name] = files[f"{archive_init.CONTENTS}code/{name}"]
    _write(path, files)
    return ClusterPackage(path, path.stat().st_size, platform, versions, native)


def _files_of(root: Path, package: str) -> dict[str, bytes]:
    """Return the code of a package of EpochMQ, by its name in the archive's contents."""
    return {
        f"code/{file.relative_to(root).as_posix()}": file.read_bytes()
        for file in sorted((root / package).rglob("*"))
        if file.suffix in _SUFFIXES and file.is_file()
    }


def _files_of_distribution(found: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield the importable files of an installed distribution."""
    for file in found.files or ():
        if file.suffix in _SUFFIXES and ".." not in file.parts:
            yield f"packages/{file.as_posix()}", Path(str(found.locate_file(file))).read_bytes()


def _write(path: Path, files: dict[str, bytes]) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, _DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, files[name])
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
