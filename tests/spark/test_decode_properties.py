"""Properties of many rows at once, held against `model.properties.decode_bytes`."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark import records
from tests.spark.records import plain
from tests.tiers import examples

from epochmq.model import properties as slow
from epochmq.spark import decode_heads, decode_properties
from epochmq.spark.decode_heads import Rows, follow


def rows_of(texts: list[bytes]) -> Rows:
    data = b"".join(plain(at, props=text) for at, text in enumerate(texts))
    walk = follow(memoryview(data), 0, len(data))
    rows, fault = decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)
    assert fault is None
    return rows


def maps(texts: list[bytes]) -> list[dict[str, str]]:
    found = decode_properties.as_map(decode_properties.split(rows_of(texts)))
    found.validate(full=True)
    assert found.type == pa.map_(pa.string(), pa.string())
    assert all(len(dict(pairs)) == len(pairs) for pairs in found.to_pylist())
    return [dict(pairs) for pairs in found.to_pylist()]


@settings(max_examples=examples(80))
@given(st.lists(records.properties, min_size=1, max_size=6))
def test_maps_and_values_are_those_of_the_slow_decoder(texts: list[bytes]) -> None:
    expected = [slow.decode_bytes(text) for text in texts]
    assert maps(texts) == expected
    pairs = decode_properties.split(rows_of(texts))
    for name in ("TAGS", "KEYS", "UNIQ_KEY", "a"):
        found = decode_properties.values(pairs, name)
        found.validate(full=True)
        assert found.to_pylist() == [each.get(name) for each in expected]
    raw = decode_properties.raw(rows_of(texts))
    assert raw.to_pylist() == [text.decode("utf-8", "replace") for text in texts]


def test_the_end_of_a_row_ends_its_last_pair_with_and_without_a_separator() -> None:
    assert maps([b"A\x011", b"B\x012\x02", b"", b"C\x013"]) == [
        {"A": "1"},
        {"B": "2"},
        {},
        {"C": "3"},
    ]


def test_pairs_without_a_side_go_and_the_last_of_a_name_stays() -> None:
    assert maps([b"A\x01\x02\x01x\x02B\x02\x02C\x011\x01\x02C\x012"]) == [{"C": "2"}]
    assert maps([b"A\x011\x02A\x01"]) == [{"A": "1"}]
    many = b"\x02".join(b"name%d\x01v" % (n % 30) for n in range(60))
    assert len(maps([many, b"A\x011"])[0]) == 30


def test_names_alike_in_front_are_told_apart() -> None:
    text = b"UNIQ_KEY\x011\x02UNIQ_KEY2\x012\x02UNIQ_KEY\x00\x013\x02TAGS\x00\x014"
    assert maps([text]) == [slow.decode_bytes(text)]
    pairs = decode_properties.split(rows_of([text]))
    assert decode_properties.values(pairs, "UNIQ_KEY").to_pylist() == ["1"]
    assert decode_properties.values(pairs, "TAGS").to_pylist() == [None]


def test_lengths_that_look_like_separators_do_no_harm() -> None:
    texts = [b"k\x01" + b"v" * size for size in (*range(1, 8), 255, 256, 257, 258, 259, 512, 514)]
    assert maps(texts) == [slow.decode_bytes(text) for text in texts]


LONG = [b"longer than eight", b"longer then eight", b"UNIQ_KEY", b"UNIQ_KEX", b"TAGS", b"KEYS"]


@given(
    st.lists(st.sampled_from(LONG), min_size=1, max_size=5),
    st.lists(
        st.lists(st.binary(min_size=1, max_size=9), min_size=5, max_size=5), min_size=1, max_size=6
    ),
    st.data(),
)
def test_rows_with_one_pattern_and_nearly_one_are_read_alike(
    names: list[bytes], rows: list[list[bytes]], data: st.DataObject
) -> None:
    texts = []
    for values in rows:
        mine = list(names)
        if data.draw(st.integers(0, 3)) == 0:
            mine[data.draw(st.integers(0, len(mine) - 1))] = data.draw(st.sampled_from(LONG))
        texts.append(b"\x02".join(n + b"\x01" + v for n, v in zip(mine, values, strict=False)))
    expected = [slow.decode_bytes(text) for text in texts]
    assert maps(texts) == expected
    pairs = decode_properties.split(rows_of(texts))
    for name in ("TAGS", "KEYS", "UNIQ_KEY"):
        found = decode_properties.values(pairs, name).to_pylist()
        assert found == [each.get(name) for each in expected]


def test_long_names_that_differ_behind_their_eighth_byte_are_no_pattern() -> None:
    texts = [b"longer than eight\x011", b"longer then eight\x012"]
    assert maps(texts) == [{"longer than eight": "1"}, {"longer then eight": "2"}]
