"""Settings: later ones win, and the package costs nothing where there is no Spark."""

import subprocess
import sys

from epochmq.spark.session import SETTINGS, settings, tune


class Builder:
    """As Spark's: remembers what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def config(self, key: str, value: str) -> "Builder":
        self.told[key] = value
        return self


def test_tasks_are_tried_again() -> None:
    assert dict(settings(4))["spark.master"] == "local[4,4]"
    assert dict(settings(4, master="spark://h:7077"))["spark.master"] == "spark://h:7077"
    assert dict(settings(4))["spark.sql.shuffle.partitions"] == "4"


def test_the_builder_gets_all_and_goes_on() -> None:
    builder = Builder()
    tune(builder, master="local[2,4]").config("spark.speculation", "true")
    assert SETTINGS.keys() < builder.told.keys()
    assert builder.told["spark.speculation"] == "true"


def test_nothing_heavy_is_imported_at_first() -> None:
    """facts/spark.md 2.3: Spark imports `pyspark_rocketmq` in every look-up of any source."""
    heavy = "{'numpy', 'pyarrow', 'pandas'}"
    code = f"import sys, epochmq.spark, pyspark_rocketmq; print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
