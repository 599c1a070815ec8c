"""Digests of the files of Delta and Iceberg tables: `_digests/*.sha256` in the table's directory.

Neither format stores a checksum of its files. Each digest file has lines `<sha256>  <path>`, so
`sha256sum -c _digests/*.sha256` checks a table without EpochMQ. The name of a digest file is the
digest of its own text. Digests of data files are written before the commit that names the files,
those of metadata files after it. Readers of the formats ignore directories that begin with `_`.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from epochmq.base.errors import StoreDamaged
from epochmq.tables.archive_table import DataFile
from epochmq.tables.storage import Storage

FOLDER = "_digests"
SMALL_BYTES = 1 << 20
"""Digest files below this size are merged."""
MERGED_AT = 64
"""The number of small digest files that are merged to one."""
_NAME_HEX = 32
_METADATA = (".json", ".avro", ".parquet")


class TableDigests:
    """The digests of one table's files; paths are relative to the root of `storage`.

    `metadata` and `data` are the directories of the format's own files and of the data files.
    """

    def __init__(self, storage: Storage, metadata: str, data: str = "") -> None:
        self.storage = storage
        self._metadata = metadata
        self._data = f"{data}/" if data else ""
        self._known: set[str] | None = None

    def add(self, files: Iterable[DataFile]) -> None:
        """Store the digests of data files that the next commit names."""
        self.write({f"{self._data}{file.path}": file.sha256 for file in files if file.sha256})

    def add_metadata(self, new: Iterable[str] = ()) -> None:
        """Store the digests of metadata files that have none yet.

        `new` are the names of files that were written since the last call. The first call looks at
        all files: a run that died may have left some without a digest.
        """
        names = list(new)
        self.storage.fs.invalidate_cache()  # the format's own library has written these files
        if self._known is None:
            self.merge_small()
            self._known = set(self.read()[0])
            names = list(self.storage.sizes(self._metadata))
        paths = [f"{self._metadata}/{name}" for name in names if is_metadata(name)]
        fresh = [path for path in paths if path not in self._known]
        self.write({path: self.storage.sha256(path) for path in fresh})
        self._known |= set(fresh)

    def forget_missing(self) -> None:
        """Drop the digests of files that no longer exist."""
        names = self.storage.sizes(self._metadata)
        self.forget({*self.storage.find(), *(f"{self._metadata}/{name}" for name in names)})

    def added_to(self, files: Iterable[DataFile]) -> list[DataFile]:
        """Return the same data files with their digests, where there are any."""
        known = self.load()
        return [replace(each, sha256=known.get(f"{self._data}{each.path}", "")) for each in files]

    def changed_metadata(self) -> list[str]:
        """Return the metadata files whose bytes are not the ones that were written.

        Files that the format has deleted since are left out.
        """
        there = self.storage.sizes(self._metadata)
        return sorted(
            path
            for path, sha256 in self.read()[0].items()
            if path.startswith(f"{self._metadata}/")
            and path.rpartition("/")[2] in there
            and self.storage.sha256(path) != sha256
        )

    def check_metadata(self) -> None:
        """Raise `StoreDamaged` when a metadata file has changed since it was written."""
        if changed := self.changed_metadata():
            raise StoreDamaged(
                f"{self.storage.root} is damaged: {len(changed)} metadata files are not those that"
                f" were written: {', '.join(changed[:5])}. Restore them from a copy of the table by"
                " `epochmq pipeline repair`; nothing was read"
            )

    def write(self, digests: Mapping[str, str]) -> str | None:
        """Write one digest file for path -> SHA-256 in hexadecimal, and return its path.

        Without digests nothing is written.
        """
        if not digests:
            return None
        lines = (f"{sha256}  {path}\n" for path, sha256 in sorted(digests.items()))
        text = "".join(lines).encode()
        path = f"{FOLDER}/{_name(text)}"
        self.storage.write_whole(path, text)
        return path

    def load(self) -> dict[str, str]:
        """Return path -> SHA-256 of all digest files.

        Raises `StoreDamaged` for a digest file that has changed since it was written.
        """
        found, changed = self.read()
        if changed:
            raise StoreDamaged(
                f"{self.storage.root} is damaged: the digest file {changed[0]} is not what the"
                " archive wrote. `epochmq pipeline verify` checks the table, and `epochmq pipeline"
                " repair` restores it from a copy"
            )
        return found

    def read(self) -> tuple[dict[str, str], list[str]]:
        """Return path -> SHA-256, and the paths of digest files that have changed."""
        found: dict[str, str] = {}
        changed = []
        for path in self._sizes():
            text = self._text(path)
            if is_whole(path, text):
                found |= _parsed(text)
            else:
                changed.append(path)
        return found, changed

    def merge_small(self) -> None:
        """Merge small digest files when there are many."""
        small = [path for path, size in self._sizes().items() if size < SMALL_BYTES]
        if len(small) >= MERGED_AT:
            self._merge(small, None)

    def forget(self, kept: Collection[str]) -> None:
        """Merge all digest files, and drop the digests of paths that are not in `kept`."""
        paths = list(self._sizes())
        if paths:
            self._merge(paths, set(kept))

    def _merge(self, paths: list[str], kept: set[str] | None) -> None:
        """Replace the digest files `paths` by one; changed ones stay, so that they are noticed."""
        found: dict[str, str] = {}
        texts = {path: self._text(path) for path in paths}
        whole = [path for path, text in texts.items() if is_whole(path, text)]
        for path in whole:
            found |= _parsed(texts[path])
        wanted = {each: text for each, text in found.items() if kept is None or each in kept}
        written = self.write(wanted)
        for path in whole:
            if path != written:
                self.storage.remove(path)

    def _sizes(self) -> dict[str, int]:
        return {
            f"{FOLDER}/{name}": size
            for name, size in self.storage.sizes(FOLDER).items()
            if name.endswith(".sha256") and not name.startswith(".")
        }

    def _text(self, path: str) -> bytes:
        return bytes(self.storage.fs.cat_file(self.storage.url(path)))


def is_whole(path: str, text: bytes) -> bool:
    """Return whether `text` is the text with which the digest file `path` was written."""
    return path.rpartition("/")[2] == _name(text)


def is_metadata(name: str) -> bool:
    """Return whether a file of the metadata directory is never changed after it was written."""
    return name.endswith(_METADATA) and not name.startswith(("_", "."))


def _name(text: bytes) -> str:
    return f"{hashlib.sha256(text).hexdigest()[:_NAME_HEX]}.sha256"


def _parsed(text: bytes) -> dict[str, str]:
    pairs = (line.partition("  ") for line in text.decode().splitlines())
    return {path: sha256 for sha256, _, path in pairs}
