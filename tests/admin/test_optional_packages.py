"""Each optional feature imports with its own extra alone, and the rest needs no extra at all."""

import subprocess
import sys

import pytest

PACKAGES = {
    "spark": {"pyspark", "pyarrow", "numpy"},
    "lake": {"deltalake", "pyiceberg", "fsspec", "s3fs"},
    "typed": {"fastavro", "google"},
    "compression": {"lz4", "zstandard"},
    "auth": {"cryptography", "yaml"},
    "metrics": {"prometheus_client"},
    "celery": {"kombu"},
    "telemetry": {"opentelemetry"},
    "dashboard": {"starlette", "uvicorn"},
}
"""Names by which the packages of each extra of pyproject.toml are imported."""

OWNERS = {
    "epochmq.spark.": "spark",
    "epochmq.tables.archive_rows": "spark",
    "epochmq.auth.": "auth",
    "epochmq.observe.": "metrics",
    "epochmq.kombu": "celery",
    "epochmq.client.aio.open_telemetry": "telemetry",
    "epochmq.admin.dashboard.": "dashboard",
}
"""Modules that may need an extra when they are imported, by the start of their names."""

IMPORT_ALL = """
import importlib, pkgutil, sys
import epochmq

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
for found in pkgutil.walk_packages(epochmq.__path__, "epochmq."):
    if not found.name.endswith(("__main__", "._native")):
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            print(found.name, error, sep=": ")
"""


def failures(extra: str | None) -> list[str]:
    """Import every module with only the packages of `extra`; returns those that fail, and why."""
    blocked = set().union(*(names for each, names in PACKAGES.items() if each != extra))
    argv = [sys.executable, "-c", IMPORT_ALL, *sorted(blocked)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_only_optional_features_need_an_extra() -> None:
    lines = failures(None)
    assert [line for line in lines if not line.startswith(tuple(OWNERS))] == []
    assert all(any(line.startswith(each) for line in lines) for each in OWNERS)


@pytest.mark.parametrize("extra", sorted(set(OWNERS.values())))
def test_a_feature_imports_with_its_extra_alone(extra: str) -> None:
    mine = tuple(start for start, owner in OWNERS.items() if owner == extra)
    assert [line for line in failures(extra) if line.startswith(mine)] == []
