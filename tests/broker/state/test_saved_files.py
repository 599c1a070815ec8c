"""Tables and their files: the backup is used, damage is never taken for emptiness."""

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base.errors import StoreDamaged
from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.state.saved_files import load_table, readable, save_dirty
from epochmq.broker.state.topic_table import TopicTable

PATH = TopicTable.file
GOOD = b'{"topicConfigTable":{"T":{"topicName":"T","perm":6}}}'


@pytest.mark.parametrize("files", [{}, {PATH: b""}, {PATH: b" \n", f"{PATH}.bak": b""}])
def test_nothing_there(files: dict[str, bytes]) -> None:
    table = TopicTable()
    assert load_table(FakeDisk(files), table) is None
    assert len(table) == 0


def test_the_file_itself() -> None:
    table = TopicTable()
    assert load_table(FakeDisk({PATH: GOOD, f"{PATH}.bak": b"bad"}), table)
    assert "T" in table
    assert not table.dirty


@pytest.mark.parametrize("broken", [b"", b'{"topicConfigTable":{"T"', b"[1]", b'{"dataVersion":7}'])
def test_backup_is_used(broken: bytes) -> None:
    table = TopicTable()
    assert load_table(FakeDisk({PATH: broken, f"{PATH}.bak": GOOD}), table)
    assert "T" in table
    # A damaged file is to be replaced; an empty one is as good as none.
    assert table.dirty is bool(broken)


def test_damage_is_not_emptiness() -> None:
    disk = FakeDisk({PATH: b'{"x":', f"{PATH}.bak": b'{"topicConfigTable":[1]}'})
    with pytest.raises(StoreDamaged, match="restore") as caught:
        load_table(disk, TopicTable())
    assert PATH in str(caught.value)


def test_no_flipped_bit_changes_a_table_silently() -> None:
    """A flip in the field's own name leaves the content right, and a file without a checksum."""
    table, disk = ConsumerOffsets(), FakeDisk()
    for number in range(20):
        table.commit("c", "G", "T", number, 1000 + number)
    save_dirty(disk, [table])
    data = disk.files[table.file]
    refused = 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        found = ConsumerOffsets()
        try:
            load_table(FakeDisk({table.file: bytes(flipped)}), found)
        except StoreDamaged:
            refused += 1
        else:
            assert found.table == table.table, f"bit {bit}"
    assert refused > 6 * len(data)


def test_an_edited_file_is_refused_until_its_checksum_is_removed() -> None:
    disk, table = FakeDisk(), TopicTable()
    table.ensure("T", 4, 6, wall=1)
    save_dirty(disk, [table])
    text = disk.files[PATH].replace(b'"T"', b'"Edited"')
    with pytest.raises(StoreDamaged, match=r"remove the line with epochmqSaved"):
        load_table(FakeDisk({PATH: text, f"{PATH}.bak": GOOD}), TopicTable())
    accepted = TopicTable()
    load_table(FakeDisk({PATH: text[: text.rindex(b",")] + b"}"}), accepted)
    assert set(accepted.table) == {"Edited"}


def test_save_writes_only_what_is_dirty_and_keeps_the_previous() -> None:
    disk = FakeDisk()
    table = TopicTable()
    assert save_dirty(disk, [table]) == 0
    table.ensure("T", 4, 6, wall=1)
    assert save_dirty(disk, [table]) == 1
    assert not table.dirty
    first = disk.files[PATH]
    table.ensure("U", 4, 6, wall=2)
    save_dirty(disk, [table])
    assert disk.files[f"{PATH}.bak"] == first
    again = TopicTable()
    load_table(disk, again)
    assert again.table == table.table
    assert again.version == table.version


def test_readable_is_indented() -> None:
    assert readable({"a": {"b": 1}}) == b'{\n  "a": {\n    "b": 1\n  }\n}'
