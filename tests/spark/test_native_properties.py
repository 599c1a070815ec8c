"""Properties by the native code, held against `model.properties.decode_bytes`."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark import records
from tests.spark.records import BROKER, plain
from tests.tiers import examples

from epochmq.model import properties as slow
from epochmq.native.library import library, which
from epochmq.spark.decode_native import Whole

pytestmark = pytest.mark.skipif(library() is None, reason=which())
NAMES = {"TAGS": "tags", "KEYS": "keys", "UNIQ_KEY": "msgId"}


class Packed:
    """The columns that one call made of properties."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def as_map(self) -> pa.MapArray:
        return self._batch.column("properties")

    def values(self, name: str) -> list[Any]:
        """The values of TAGS, KEYS or UNIQ_KEY; None in place of an id that was made."""
        values: list[Any] = self._batch.column(NAMES[name]).to_pylist()
        if name != "UNIQ_KEY":
            return values
        made = self._batch.column("commitLogOffset").to_pylist()
        ids = [f"{'7F000001'}{10911:08X}{offset:016X}" for offset in made]
        return [None if value == place else value for value, place in zip(values, ids, strict=True)]


def packed(texts: list[bytes]) -> Packed | None:
    """None unless the native code takes all of them."""
    native = library()
    assert native is not None
    data = b"".join(plain(at, props=text) for at, text in enumerate(texts))
    whole = Whole(("properties", *NAMES.values(), "commitLogOffset"), False, 2000, BROKER)
    found = whole.decode(native, np.frombuffer(data, np.uint8), 0, len(data))
    if found is None or found.end < len(data):
        return None
    found.batch.validate(full=True)
    return Packed(found.batch)


def is_text(text: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        return text.decode() is not None
    except UnicodeDecodeError:
        return False


@settings(max_examples=examples(80))
@given(st.lists(records.properties, min_size=1, max_size=5))
def test_what_it_takes_it_reads_as_the_slow_decoder_does(texts: list[bytes]) -> None:
    found = packed(texts)
    assert (found is not None) == all(map(is_text, texts))
    if found is None:
        return
    expected = [slow.decode_bytes(text) for text in texts]
    maps = found.as_map()
    assert maps.type == pa.map_(pa.string(), pa.string())
    assert [dict(pairs) for pairs in maps.to_pylist()] == expected
    for name in ("TAGS", "KEYS", "UNIQ_KEY"):
        assert found.values(name) == [each.get(name) for each in expected]


ALIKE = [
    *(
        b"UNIQ_KEY\x01A%d\x02TAGS\x01t%d\x02WAIT\x01true\x02WAIT\x01false" % (n, n)
        for n in range(9)
    ),
    b"UNIQ_KEY\x01A\x02TAGS\x01\x02WAIT\x01true\x02WAIT\x01false",
    b"UNIQ_KEY\x01A\x02TAGS\x01t\x02WAIT\x01true\x02WAIT\x01false\x02",
    b"UNIQ_KEY\x01A\x02TAGS\x01t\x02WAIT\x01true\x02WAIT\x01false\x02more\x01x",
    b"UNIQ_KEY\x01A\x02TAGS\x01t\x02WAIT\x01true\x02WAIT\x01a\x01b",
    b"UNIQ_KEY\x01A\x02TAGS\x01t\x02WAIT\x01true",
    b"a name of more than one block\x01v\x02k\x01" + b"v" * 99,
    b"a name of more than one blocK\x01v\x02k\x01" + b"v" * 99,
    b"a name of more than one blocK\x01v\x02a name of more than one blocK\x01w",
    b"",
    b"TAGS",
    b"KEYS\x01k",
]


def test_rows_that_have_the_names_of_the_row_before_or_nearly() -> None:
    for texts in (ALIKE, ALIKE[::-1], [text for text in ALIKE for _ in range(2)]):
        found = packed(texts)
        assert found is not None
        expected = [slow.decode_bytes(text) for text in texts]
        assert found.as_map().to_pylist() == [list(each.items()) for each in expected]
        for name in ("TAGS", "KEYS", "UNIQ_KEY"):
            assert found.values(name) == [each.get(name) for each in expected]


def test_a_row_of_very_many_properties_is_left_to_numpy() -> None:
    many = [b"\x02".join(b"n%d\x01v" % n for n in range(count)) for count in (64, 65)]
    assert packed(many[:1]) is not None
    assert packed(many[1:]) is None


def test_a_row_of_very_long_names_is_left_to_numpy() -> None:
    for size in (1023, 1024):
        texts = [b"n" * size + b"\x01v\x02m\x01v", b"n\x01v"]
        assert (packed(texts) is not None) == (size < 1024)
    again = b"n" * 600 + b"\x01v\x02" + b"n" * 600 + b"\x01w"
    found = packed([again])
    assert found is not None, "only the last of equal names counts"
    assert found.as_map().to_pylist() == [[("n" * 600, "w")]]


def test_texts_that_broke_behind_ordinary_ones() -> None:
    """Rows with the names of the row before are read another way."""
    first = b"TAGS\x01t\x02KEYS\x01k"
    for broken in (b"TAGS\x01\xff\x02KEYS\x01k", b"TAGS\x01t\x02KEYS\x01abcdefgh\xc3"):
        assert packed([first, broken, first]) is None
    sound = "TAGS\x01ä\x02KEYS\x01\N{GRINNING FACE}".encode()
    found = packed([first, sound, first])
    assert found is not None
    assert found.values("TAGS") == ["t", "ä", "t"]
