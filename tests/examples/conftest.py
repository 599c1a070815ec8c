"""The clusters of the tests of the command line, for the examples as well."""

from tests.admin.conftest import replicas, world

__all__ = ["replicas", "world"]
