"""`record_layout.h` is the record's layout of model/record.py, and the only one in C."""

import re
import struct
from pathlib import Path

import epochmq.native
from epochmq.model import record, sys_flag

FOLDER = Path(epochmq.native.__file__).parent
HEADER = (FOLDER / "record_layout.h").read_text()
FIELDS = ("SIZE_AT", "MAGIC_AT", "CRC_AT", "QUEUE_ID_AT", "FLAG_AT", "QUEUE_OFFSET_AT", "OFFSET_AT",
          "SYS_FLAG_AT", "BORN_TIME_AT", "BORN_HOST_AT", "STORE_TIME_AT", "STORE_HOST_AT",
          "RECONSUME_AT", "PREPARED_AT", "BODY_SIZE_AT")  # fmt: skip
"""The fields of the head in their order, as `record.HEAD` has them."""


def constants() -> dict[str, int]:
    """All constants of the header by name."""
    text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    found = re.findall(r"#define (\w+) (0x[0-9A-F]+)u|\b([A-Z]\w*) = (\w+)", text)
    return {name or other: int(value or number, 0) for name, value, other, number in found}


def test_the_fields_are_where_python_has_them() -> None:
    parts = re.findall(r"\d*s|\w", record.HEAD.format.lstrip(">"))
    ends = [struct.calcsize(">" + "".join(parts[:count])) for count in range(len(parts) + 1)]
    layout = constants()
    assert [layout[name] for name in FIELDS] == ends[:-1]
    assert layout["RECORD_HEAD"] == record.HEAD.size == ends[-1]
    assert layout["RECORD_LEAST"] == record.HEAD.size + 3
    assert layout["V6_MORE"] == record.HEADS[1].size - record.HEAD.size
    for name in ("MAGIC_AT", "QUEUE_OFFSET_AT", "OFFSET_AT", "SYS_FLAG_AT", "BORN_TIME_AT",
                 "STORE_TIME_AT", "MAGIC_V1", "MAGIC_V2"):  # fmt: skip
        assert layout[name] == getattr(record, name)


def test_the_flags_are_pythons() -> None:
    layout = constants()
    for name, value in {
        "TX_PREPARED": sys_flag.TX_PREPARED,
        "TX_COMMIT": sys_flag.TX_COMMIT,
        "TX_ROLLBACK": sys_flag.TX_ROLLBACK,
        "TX_BITS": sys_flag.TX_MASK,
        "BORN_V6": sys_flag.BORN_V6,
        "STORE_V6": sys_flag.STORE_V6,
        "V6_HOSTS": sys_flag.HOSTS_V6_MASK,
    }.items():
        assert layout[name] == value


def test_every_constant_is_compared() -> None:
    compared = {*FIELDS, "RECORD_HEAD", "RECORD_LEAST", "V6_MORE", "MAGIC_V1", "MAGIC_V2",
                "TX_PREPARED", "TX_COMMIT", "TX_ROLLBACK", "TX_BITS", "BORN_V6", "STORE_V6",
                "V6_HOSTS"}  # fmt: skip
    assert set(constants()) == compared


def test_no_other_file_declares_the_layout() -> None:
    for path in sorted((*FOLDER.glob("*.c"), *FOLDER.glob("*.h"))):
        if path.name != "record_layout.h":
            text = path.read_text()
            assert not re.findall(
                r"(?:#define\s+|\b)(?:MAGIC_V\d|\w+_AT|RECORD_\w+)\s*=?\s+\d", text
            )
            # append_batch.c reads entries of a request, native.h defines get32 by get16
            if path.name not in {"append_batch.c", "native.h"}:
                assert not re.findall(r"get(?:16|32|64|_i64)\((?:at|r\.at|record) \+ \d", text)
