"""Checks the bodies of archived messages against the checksum that the broker stored.

A row has the body and `bodyCRC`, the CRC-32 without its sign bit. For compressed messages the
archive has the decompressed body and the checksum of the compressed one, so these are not checked.
"""

from typing import TYPE_CHECKING

from epochmq.base.errors import StoreDamaged
from epochmq.model.sys_flag import COMPRESSED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NEEDED = frozenset({"body", "bodyCRC", "sysFlag", "topic", "brokerName", "queueId", "queueOffset"})
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
_SHOWN = 3


def check_bodies(rows: "DataFrame", where: str) -> None:
    """Raise `StoreDamaged` with the first rows whose body does not match its checksum."""
    if not set(rows.columns) >= NEEDED:
        return
    found = rows.where(_differs()).select(_place().alias("place")).limit(_SHOWN).collect()
    if found:
        raise StoreDamaged(
            f"{where} is damaged: bodies do not fit their bodyCRC, as at"
            f" {', '.join(row['place'] for row in found)}. Restore the table from a copy, or"
            " archive these messages again while brokers have them"
        )


def with_checked_bodies(rows: "DataFrame", where: str) -> "DataFrame":
    """Return rows that raise an error when a body is read that does not match its checksum."""
    from pyspark.sql import functions as f

    if not set(rows.columns) >= NEEDED:
        return rows
    said = f.concat(f.lit(f"{where} is damaged: the body does not fit its bodyCRC at "), _place())
    guarded = f.when(_differs(), f.raise_error(said).cast("binary")).otherwise(f.col("body"))
    return rows.withColumn("body", guarded)


def _differs() -> "Column":
    from pyspark.sql import functions as f

    known = (f.col("bodyCRC") != 0) & f.col("bodyCRC").isNotNull()
    plain = f.col("sysFlag").bitwiseAND(COMPRESSED) == 0
    now = f.crc32("body").bitwiseAND(f.lit(0x7FFFFFFF).cast("bigint"))
    return known & plain & f.col("body").isNotNull() & (now != f.col("bodyCRC"))


def _place() -> "Column":
    from pyspark.sql import functions as f

    return f.concat_ws(":", *_PLACE)
