"""Options of metrics, with RocketMQ's names."""

from dataclasses import dataclass

from epochmq.base.options import option

DISABLED, PROMETHEUS = "DISABLE", "PROM"
_KINDS = (DISABLED, "OTLP_GRPC", PROMETHEUS, "LOG")
"""In the order of RocketMQ's numbers, which are accepted too."""
_NUMBERS = tuple(map(str, range(len(_KINDS))))
LABELS_MAX = 32


@dataclass(frozen=True, kw_only=True)
class MetricsOptions:
    # Metrics.
    metrics_exporter_type: str = option(
        DISABLED,
        "PROM answers scrapes of Prometheus. OTLP_GRPC and LOG are refused: let an OpenTelemetry"
        " collector scrape.",
        choices=(*_KINDS, *_NUMBERS),
    )
    metrics_prom_exporter_port: int = option(
        5557, "Port for scrapes; a taken one is only logged.", low=1, high=65_535
    )
    metrics_prom_exporter_host: str = option(
        "", "Address of that port; empty is bindAddress (RocketMQ: brokerIP1)."
    )
    metrics_label: str = option("", "Labels of every sample, as 'name:value,name:value'.")
    metrics_otel_cardinality_limit: int = option(
        50_000, "Maximum samples of one metric; further ones are left out.", low=100, high=1_000_000
    )


def is_enabled(options: MetricsOptions) -> bool:
    """Return whether scrapes are answered."""
    kind = options.metrics_exporter_type
    return (_KINDS[int(kind)] if kind in _NUMBERS else kind) == PROMETHEUS


def parse_labels(text: str) -> dict[str, str]:
    """Return the labels of `metricsLabel`. Raises `ValueError` for what Prometheus refuses."""
    labels = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, colon, value = pair.partition(":")
        name = name.strip()
        if not colon or not name.isidentifier() or not name.isascii() or name.startswith("__"):
            raise ValueError(f"'{pair}' is not of the form name:value")
        labels[name] = value.strip()
    if len(labels) > LABELS_MAX:
        raise ValueError(f"more than {LABELS_MAX} labels")
    return labels


def metrics_problems(options: MetricsOptions) -> list[str]:
    """Return what is wrong with the options."""
    problems = []
    kind = options.metrics_exporter_type
    if kind not in (DISABLED, PROMETHEUS, "0", "2"):
        problems.append(
            f"option 'metricsExporterType'={kind} is not supported: use PROM, and an OpenTelemetry"
            " collector that scrapes it and sends the metrics on"
        )
    try:
        parse_labels(options.metrics_label)
    except ValueError as error:
        problems.append(f"option 'metricsLabel': {error}")
    return problems
