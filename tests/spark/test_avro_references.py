"""A schema and the schemas to which it refers become one text that Avro reads."""

import json

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from epochmq.spark.avro_references import with_references

COUNTRY = {"type": "enum", "name": "geo.Country", "symbols": ["NL", "FR"]}
ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "geo",
    "fields": [{"name": "country", "type": "Country"}],
}


def record(*kinds: object) -> str:
    fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate(kinds)]
    return json.dumps({"type": "record", "name": "shop.Order", "fields": fields})


GIVEN = {"geo.Address": json.dumps(ADDRESS), "geo.Country": json.dumps(COUNTRY)}


@pytest.mark.parametrize(
    "kind",
    [
        "geo.Address",
        ["null", "geo.Address"],
        {"type": "array", "items": "geo.Address"},
        {"type": "map", "values": ["null", "geo.Address"]},
    ],
)
def test_each_place_of_a_type(kind: object) -> None:
    text = with_references(record(kind, "geo.Country", kind), GIVEN)
    fastavro.parse_schema(json.loads(text))
    assert text.count('"symbols"') == 1, "a definition appears once"
    assert "__" not in text, "nothing of the parser stays in the text"


def test_a_short_name_belongs_to_the_namespace_around_it() -> None:
    country = {"type": "enum", "name": "shop.Country", "symbols": ["NL"]}
    text = with_references(record("Country"), {"shop.Country": json.dumps(country)})
    fastavro.parse_schema(json.loads(text))


@pytest.mark.parametrize(
    ("text", "referenced", "says"),
    [
        (record("geo.City"), GIVEN, "no reference defines geo.City"),
        (record("geo.Address"), {"geo.Address": json.dumps(ADDRESS)}, "geo.Country"),
        (record("geo.Address"), {"geo.Address": "{"}, "are not Avro"),
        (
            record("geo.Address"),
            {"geo.Address": record("geo.Address")},
            "form a cycle through geo.Address",
        ),
        ("5", {}, "are not Avro"),
        ("[" * 100_000, {}, "are not Avro"),
    ],
)
def test_texts_that_cannot_be_used(text: str, referenced: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        with_references(text, referenced)


def test_a_long_chain_of_types_that_are_used_twice() -> None:
    """Types are loaded once: without that this would need 2 ** 99 loads."""

    def link(n: int) -> str:
        kinds = [f"t.T{n + 1}"] * 2 if n < 99 else ["string"]
        fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]
        return json.dumps({"type": "record", "name": f"t.T{n}", "fields": fields})

    text = with_references(record("t.T0"), {f"t.T{n}": link(n) for n in range(100)})
    fastavro.parse_schema(json.loads(text))


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from(["geo.Address", "geo.Country", "string"]), min_size=1, max_size=6))
def test_any_order_of_first_uses(kinds: list[str]) -> None:
    schema = fastavro.parse_schema(json.loads(with_references(record(*kinds), GIVEN)))
    assert [field["name"] for field in schema["fields"]] == [f"f{n}" for n in range(len(kinds))]
