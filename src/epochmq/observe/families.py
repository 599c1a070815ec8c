"""Metric families as plain values, and their text for Prometheus.

A family is written in pieces of at most `PIECE_ROWS` samples or `PIECE_HISTOGRAMS` histograms, so
that a scrape of a broker with many topics can be done in short steps. `prometheus_client` writes
each piece.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from epochmq.base.histogram import Histogram

__all__ = [
    "CONTENT_TYPE_LATEST",
    "COUNTER",
    "GAUGE",
    "HISTOGRAM",
    "Family",
    "Row",
    "bool_label",
    "write_families",
]

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
PIECE_ROWS, PIECE_HISTOGRAMS = 10, 2


Row = tuple[Sequence[str], float | Histogram]
"""Values of the labels, and the value: a `Histogram` in families of that kind, else a number.

The last labels of a family may have no values; the sample is then without them.
"""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: name, kind, help, names of the labels, and its samples.

    `common` are the labels of every sample, if they are not those of the server: two servers in one
    process have their own.
    """

    name: str
    kind: str
    help: str
    labels: Sequence[str]
    rows: Iterable[Row]
    common: Mapping[str, str] | None = None


def bool_label(value: bool) -> str:
    """Return the value of a label that is true or false."""
    return "true" if value else "false"


class _Piece:
    """What `generate_latest` calls a registry."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def write_families(
    families: Iterable[Family], common: Mapping[str, str], limit: int
) -> Iterator[bytes]:
    """Yield the text of all families, in short pieces.

    Args:
        families: the metrics; each name once.
        common: labels of every sample, unless a family has its own.
        limit: maximum number of samples of one family.
    """
    dropped = 0
    for family in families:
        own_common = common if family.common is None else family.common
        names, values = tuple(own_common), tuple(own_common.values())
        labels, rows = (*names, *family.labels), 0
        piece: list[Row] = []
        piece_rows = PIECE_HISTOGRAMS if family.kind == HISTOGRAM else PIECE_ROWS
        is_first = True
        for own, value in family.rows:
            rows += 1
            if rows > limit:
                dropped += 1
                continue
            piece.append(((*values, *own), value))
            if len(piece) == piece_rows:
                yield _text(family, labels, piece, is_first)
                piece, is_first = [], False
        if piece:
            yield _text(family, labels, piece, is_first)
    left_out = Family(
        "epochmq_metrics_samples_left_out", GAUGE,
        "Samples of this scrape beyond metricsOtelCardinalityLimit.", (), [((), dropped)],
    )  # fmt: skip
    yield _text(left_out, tuple(common), [(tuple(common.values()), dropped)], True)


def _metric(family: Family, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    if family.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, family.help, labels=labels)
        for values, counts in rows:
            assert isinstance(counts, Histogram)
            histogram.add_metric(values, counts.buckets(), counts.total)
        return histogram
    make = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
    metric = make(family.name, family.help, labels=labels)
    for values, value in rows:
        assert not isinstance(value, Histogram)
        metric.add_metric(values, value)
    return metric


def _text(family: Family, labels: Sequence[str], rows: Iterable[Row], is_first: bool) -> bytes:
    metric = _metric(family, labels, rows)
    text: bytes = generate_latest(_Piece(metric))
    if is_first:
        return text
    return text.split(b"\n", 2)[2]  # without the two lines that describe the family
