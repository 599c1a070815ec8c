"""The text for Prometheus, read by prometheus_client's own parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from epochmq.observe.families import (
    COUNTER,
    GAUGE,
    PIECE_ROWS,
    Family,
    write_families,
)

COMMON = {"cluster": "c"}
LEFT_OUT = "epochmq_metrics_samples_left_out"


def samples_of(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_kinds_and_labels() -> None:
    families = [
        Family("a", COUNTER, "A.", ("topic",), [(("t",), 3)]),
        Family("b", GAUGE, "B.", (), [((), 1.5)]),
        Family("d", GAUGE, "no samples", (), []),
    ]
    text = b"".join(write_families(families, COMMON, 100))
    common = ("cluster", "c")
    assert samples_of(text) == {
        ("a_total", (common, ("topic", "t"))): 3,
        ("b", (common,)): 1.5,
        (LEFT_OUT, (common,)): 0,
    }
    assert b"# TYPE a_total counter" in text
    assert b"no samples" not in text


@pytest.mark.parametrize("rows", [PIECE_ROWS - 1, PIECE_ROWS, 3 * PIECE_ROWS + 1])
def test_pieces_are_one_family(rows: int) -> None:
    family = Family("a", GAUGE, "A.", ("n",), [((str(n),), n) for n in range(rows)])
    pieces = list(write_families([family], COMMON, 10_000))
    assert len(pieces) == (rows + PIECE_ROWS - 1) // PIECE_ROWS + 1
    text = b"".join(pieces)
    assert text.count(b"# TYPE a gauge") == text.count(b"# HELP a ") == 1
    assert len(samples_of(text)) == rows + 1


def test_samples_beyond_the_limit_are_counted() -> None:
    family = Family("a", GAUGE, "A.", ("n",), [((str(n),), n) for n in range(250)])
    found = samples_of(b"".join(write_families([family], COMMON, 200)))
    assert found[LEFT_OUT, (("cluster", "c"),)] == 50
    assert len(found) == 201


@given(st.text())
def test_any_label_value_is_readable_again(text: str) -> None:
    family = Family("a", GAUGE, "A.", ("n",), [((text,), 1)])
    (first, *_) = write_families([family], {}, 10)
    try:
        data = first.decode()
    except UnicodeDecodeError:
        pytest.fail("not UTF-8")
    found = [family.samples[0].labels for family in text_string_to_metric_families(data)]
    # Its parser splits lines at every kind of line end of Unicode; Prometheus splits at \n only.
    if not any(len(line.splitlines()) > 1 for line in (text + "x").split("\n")):
        assert found == [{"n": text}]
