"""Which address a client connects to."""

import pytest

from epochmq.base.errors import UsageError
from epochmq.runtime.address_map import (
    PAIRS_MAX,
    VARIABLE,
    current_address_map,
    mapped,
    mapped_addresses,
    parse_address_map,
)

TEXT = "10.0.0.5:10911=a.example:30911, 10.0.0.6=203.0.113.7;[fd00::1]:1=[::1]:2"


def test_pairs_with_and_without_ports() -> None:
    found = parse_address_map(TEXT)
    assert mapped(found, "10.0.0.5:10911") == "a.example:30911"
    assert mapped(found, "10.0.0.5:10912") == "10.0.0.5:10912"
    assert mapped(found, "10.0.0.6:10911") == "203.0.113.7:10911"
    assert mapped(found, "[fd00::1]:1") == "[::1]:2"
    assert parse_address_map("") == {}


@pytest.mark.parametrize(
    "text", ["a", "a=", "=b", "a:1=b", "a=b:1", "a b=c", "a:1=b:1=c:1", "a:123456=b:1", "a::1=b:1"]
)
def test_bad_pairs(text: str) -> None:
    with pytest.raises(UsageError, match="is not a pair of addresses"):
        parse_address_map(text)


def test_a_map_is_bounded() -> None:
    with pytest.raises(UsageError, match="at most"):
        parse_address_map(",".join(f"h{n}=x" for n in range(PAIRS_MAX + 1)))


def test_the_environment_and_what_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert current_address_map() == {}
    monkeypatch.setenv(VARIABLE, "a=b")
    assert current_address_map() == {"a": "b"}
    with mapped_addresses({"c": "d"}):
        assert current_address_map() == {"c": "d"}
        with mapped_addresses(None):
            assert current_address_map() == {"c": "d"}
    with mapped_addresses(None):
        assert current_address_map() == {"a": "b"}
    monkeypatch.setenv(VARIABLE, "a")
    with pytest.raises(UsageError, match=f"{VARIABLE}: 'a' is not a pair"):
        current_address_map()
