"""What the drill of `epochmq lake` measures, without processes."""

import time
from collections import Counter
from pathlib import Path

from chaos.lake_kill import SAMPLE_S, Outcome, TableFigures, Watch, report
from tests.spark.jobs.lake import FakeCluster, archive, topic

from epochmq.spark.jobs.archive import ArchiveOptions


def test_the_age_of_the_newest_row_of_each_table(tmp_path: Path) -> None:
    """The age is that of rows that can be read, and grows while nobody can read them."""
    made = topic("%DLQ%g", 2, 8)
    table = str(tmp_path / "t")
    archive(ArchiveOptions("", ("%DLQ%g",), table, "parquet", max_rows=10), FakeCluster(made))
    outcome = Outcome(tables={"t": TableFigures(), "later": TableFigures()})
    watch = Watch(tmp_path, outcome)
    watch.start()
    watch.end()
    for name, figures in outcome.tables.items():
        watch.sample(name, figures)
    figures = outcome.tables["t"]
    assert outcome.tables["later"].ages_s == [], "no table yet, so no age"
    assert 0 < figures.ages_s[0] < time.time()
    assert figures.files == figures.files_max > 0
    (tmp_path / "t").rename(tmp_path / "moved")
    watch.sample("t", figures)
    assert figures.ages_s[1] == figures.ages_s[0] + SAMPLE_S


def test_the_report_names_kills_ages_and_files() -> None:
    figures = TableFigures([float(n) for n in range(100)], 7, 3, 10, 10)
    outcome = Outcome(1_800.0, Counter(service=12, master=5), {"lake_delta": figures})
    said = report(outcome)
    assert "1800 s, killed with SIGKILL: master 5, service 12" in said
    assert "p50 50.0 s, p99 99.0 s, max 99.0 s" in said
    assert "files: at most 7, at the end 3" in said
