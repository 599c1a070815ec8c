"""Metric families as plain values, and their text for Prometheus.

A family is written in pieces of at most `PIECE_ROWS` samples, so that a scrape of a broker with
many topics can be done in short steps. `prometheus_client` writes each piece.
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

__all__ = [
    "CONTENT_TYPE_LATEST",
    "COUNTER",
    "GAUGE",
    "HISTOGRAM",
    "Family",
    "Histogram",
    "Row",
    "write_families",
]

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
PIECE_ROWS = 50


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of values by upper bound, not added up; the last count is of larger values."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper bound, number of values up to it)."""
        found, total = [], 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else str(float(bound)), float(total)))
        return found


Row = tuple[Sequence[str], float | Histogram]
"""Values of the labels, and the value."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: name, kind, help, names of the labels, and its samples."""

    name: str
    kind: str
    help: str
    labels: Sequence[str]
    rows: Iterable[Row]


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
        common: labels of every sample.
        limit: maximum number of samples of one family.
    """
    names, values = tuple(common), tuple(common.values())
    dropped = 0
    for family in families:
        labels, rows = (*names, *family.labels), 0
        piece: list[Row] = []
        is_first = True
        for own, value in family.rows:
            rows += 1
            if rows > limit:
                dropped += 1
                continue
            piece.append(((*values, *own), value))
            if len(piece) == PIECE_ROWS:
                yield _text(family, labels, piece, is_first)
                piece, is_first = [], False
        if piece:
            yield _text(family, labels, piece, is_first)
    left_out = Family(
        "epochmq_metrics_samples_left_out", GAUGE,
        "Samples of this scrape beyond metricsOtelCardinalityLimit.", (), [((), dropped)],
    )  # fmt: skip
    yield _text(left_out, names, [(values, dropped)], True)


def _text(family: Family, labels: Sequence[str], rows: Iterable[Row], is_first: bool) -> bytes:
    metric: GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily
    if family.kind == HISTOGRAM:
        metric = HistogramMetricFamily(family.name, family.help, labels=labels)
    elif family.kind == COUNTER:
        metric = CounterMetricFamily(family.name, family.help, labels=labels)
    else:
        metric = GaugeMetricFamily(family.name, family.help, labels=labels)
    for values, value in rows:
        if isinstance(value, Histogram):
            assert isinstance(metric, HistogramMetricFamily)
            metric.add_metric(values, value.buckets(), value.sum)
        else:
            assert not isinstance(metric, HistogramMetricFamily)
            metric.add_metric(values, value)
    text: bytes = generate_latest(_Piece(metric))
    if is_first:
        return text
    return text.split(b"\n", 2)[2]  # without the two lines that describe the family
