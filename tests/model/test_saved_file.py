"""The checksum of a small file, and what is read in its place when the file is damaged."""

import json
import logging

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base.errors import StoreDamaged
from epochmq.model.saved_file import (
    Edited,
    JournalMark,
    Loaded,
    check_seal,
    load_saved,
    report_replaced,
    seal,
)

GOOD = seal(b'{"a":1}')
OLDER = seal(b'{"a":2}')
EDITED = GOOD.replace(b'"a":1', b'"a":3')


def load(files: dict[str, bytes]) -> tuple[Loaded | None, int]:
    found: list[int] = []
    loaded = load_saved(
        FakeDisk(files),
        "f",
        lambda data: int(json.loads(data)["a"]),
        found.append,
        what="the numbers",
        source="another place",
    )
    return loaded, found[0] if found else 0


@pytest.mark.parametrize("data", [b"{}", b'{"a":1}', b'{\n  "a": 1\n}'])
def test_a_sealed_file_is_json_with_one_field_more(data: bytes) -> None:
    sealed = seal(data, JournalMark("1f", 7))
    assert check_seal(sealed) == JournalMark("1f", 7)
    content = json.loads(sealed)
    assert content.pop("epochmqSaved").startswith("1f-7-")
    assert content == json.loads(data)
    assert check_seal(data) is None


def test_a_wrong_checksum_is_told() -> None:
    with pytest.raises(Edited):
        check_seal(EDITED)


def test_the_file_itself_comes_first() -> None:
    assert load({"f": GOOD, "f.bak": OLDER}) == (Loaded(JournalMark()), 1)
    assert load({"f": b'{"a":1}', "f.bak": OLDER}) == (Loaded(None), 1)
    assert load({"f": b" "}) == (None, 0)


def test_the_backup_is_used_for_a_file_that_is_missing_or_malformed() -> None:
    assert load({"f.bak": OLDER}) == (Loaded(JournalMark(), "it is missing or empty"), 2)
    loaded, number = load({"f": GOOD[:9], "f.bak": OLDER})
    assert loaded is not None
    assert loaded.damaged
    assert (loaded.replaced[:2], number) == ("f:", 2)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"f": EDITED, "f.bak": OLDER}, r"f does not match its checksum .* from another place"),
        ({"f": b"{", "f.bak": EDITED}, r"the numbers: f: .*; f.bak: its checksum .* is wrong"),
        ({"f": b"{"}, r"restore the file from another place, or move it and its .bak away"),
    ],
)
def test_what_cannot_be_believed_is_refused(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(StoreDamaged, match=message):
        load(files)


def test_a_replaced_file_is_told_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    disk = FakeDisk({"f": b"{"})
    report_replaced(disk, "f", "no end", "much is lost")
    report_replaced(disk, "f", "it is missing or empty", "much is lost")
    assert disk.files == {"f.damaged": b"{"}
    replaced = "was replaced by f.bak: much is lost"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.ERROR,
            f"f is damaged (no end) and {replaced}; the damaged file is kept as f.damaged",
        ),
        (logging.ERROR, f"f is damaged (it is missing or empty) and {replaced}"),
    ]
