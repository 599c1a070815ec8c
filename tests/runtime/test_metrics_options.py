import pytest

from epochmq.runtime.metrics_options import (
    MetricsOptions,
    is_enabled,
    metrics_problems,
    parse_labels,
)


@pytest.mark.parametrize(
    ("kind", "enabled", "problem"),
    [
        ("DISABLE", False, ""),
        ("0", False, ""),
        ("PROM", True, ""),
        ("2", True, ""),
        ("OTLP_GRPC", False, "not supported"),
        ("1", False, "not supported"),
        ("LOG", False, "not supported"),
        ("3", False, "not supported"),
    ],
)
def test_kinds(kind: str, enabled: bool, problem: str) -> None:
    options = MetricsOptions(metrics_exporter_type=kind)
    assert is_enabled(options) is enabled
    problems = metrics_problems(options)
    assert bool(problems) is bool(problem)
    assert problem in "".join(problems)


def test_labels() -> None:
    assert parse_labels("") == {}
    assert parse_labels(" env:prod, zone : a:1 ,") == {"env": "prod", "zone": "a:1"}


@pytest.mark.parametrize("text", ["x", "1a:b", "a b:c", "é:x", "__name__:x", ":x"])
def test_wrong_labels(text: str) -> None:
    with pytest.raises(ValueError, match="name:value"):
        parse_labels(text)
    assert metrics_problems(MetricsOptions(metrics_label=text)) != []


def test_too_many_labels() -> None:
    with pytest.raises(ValueError, match="more than 32"):
        parse_labels(",".join(f"a{n}:b" for n in range(33)))
