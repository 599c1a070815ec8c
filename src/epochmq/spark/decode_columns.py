"""Builds the Arrow array of each column from decoded rows; unused columns cost nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.model import property_names as names
from epochmq.spark import decode_bodies, decode_heads, decode_properties
from epochmq.spark.columns import ARROW
from epochmq.spark.decode_heads import Rows

TIME_MS_MIN = -62_135_596_800_000
TIME_MS_MAX = 253_402_300_799_999
"""The years 1 to 9999 in ms. Other times, from a wrong client clock, become null."""


@dataclass
class BatchRows:
    """The rows of one batch, and values that several columns share."""

    rows: Rows
    plain: list[bytes | None]
    broker_name: str
    raw_properties: bool

    @cached_property
    def pairs(self) -> decode_properties.Pairs:
        return decode_properties.split(self.rows)


def build(name: str, part: BatchRows) -> pa.Array:
    """Build the column `name` of the batch."""
    return _BUILDERS[name](part)


def _number(name: str) -> Callable[[BatchRows], pa.Array]:
    kind = ARROW[name].to_pandas_dtype()
    return lambda part: pa.array(part.rows.head[name].astype(kind))


def _time(name: str) -> Callable[[BatchRows], pa.Array]:
    def of(part: BatchRows) -> pa.Array:
        ms = part.rows.head[name].astype(np.int64)
        senseless = None
        if ms.min() < TIME_MS_MIN or ms.max() > TIME_MS_MAX:
            senseless = (ms < TIME_MS_MIN) | (ms > TIME_MS_MAX)
            ms[senseless] = 0
        return pa.array(ms * 1000, pa.int64(), mask=senseless).view(ARROW[name])

    return of


def _topic(part: BatchRows) -> pa.Array:
    rows = part.rows
    return decode_heads.text(rows.raw, rows.topic_at, rows.topic_to)


def _broker_name(part: BatchRows) -> pa.Array:
    return decode_heads.repeated(part.broker_name, len(part.rows))


def _body(part: BatchRows) -> pa.Array:
    return decode_bodies.bodies(part.rows, part.plain)


def _properties(part: BatchRows) -> pa.Array:
    if part.raw_properties:
        return decode_properties.raw(part.rows)
    return part.pairs.as_map()


def _property(name: str) -> Callable[[BatchRows], pa.Array]:
    return lambda part: part.pairs.values(name)


def _msg_id(part: BatchRows) -> pa.Array:
    drawn = part.pairs.values(names.UNIQ_KEY)
    if not drawn.null_count:
        return drawn
    return pc.coalesce(drawn, decode_heads.offset_ids(part.rows))


_BUILDERS: dict[str, Callable[[BatchRows], pa.Array]] = {
    "topic": _topic,
    "queueId": _number("queueId"),
    "queueOffset": _number("queueOffset"),
    "brokerName": _broker_name,
    "body": _body,
    "tags": _property(names.TAGS),
    "keys": _property(names.KEYS),
    "properties": _properties,
    "bornTimestamp": _time("bornTimestamp"),
    "storeTimestamp": _time("storeTimestamp"),
    "bornHost": lambda part: decode_heads.born_hosts(part.rows),
    "storeHost": lambda part: decode_heads.store_hosts(part.rows),
    "commitLogOffset": _number("commitLogOffset"),
    "sysFlag": _number("sysFlag"),
    "flag": _number("flag"),
    "bodyCRC": _number("bodyCRC"),
    "reconsumeTimes": _number("reconsumeTimes"),
    "preparedTransactionOffset": _number("preparedTransactionOffset"),
    "msgId": _msg_id,
}
