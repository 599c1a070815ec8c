"""The runs that a campaign against the archive plans."""

import random
from collections import Counter

import pytest
from chaos.spark_plan import (
    CLUSTER,
    DRIVER,
    EXECUTOR,
    EXECUTORS_A_RUN,
    KEPT,
    LOCAL,
    MASTER,
    NO_SPARK,
    SESSION,
    START_UP,
    WORKER,
    plan,
)

WHOLE = Counter({DRIVER: 60, SESSION: 20, EXECUTOR: 20, WORKER: 10, MASTER: 20})


@pytest.mark.parametrize("seed", range(5))
def test_all_victims_die_as_often_as_wanted(seed: int) -> None:
    runs = plan(WHOLE, random.Random(seed))
    died = Counter(victim for run in runs for victim in run.blows)
    assert died == {EXECUTOR: 20, WORKER: 10, MASTER: 20}
    assert len([run for run in runs if run.point]) == len(runs) == 60
    modes = Counter(run.mode for run in runs)
    assert modes == {CLUSTER: 1, LOCAL: 11, KEPT: 8, NO_SPARK: 40}
    assert runs[0].mode == CLUSTER
    for run in runs:
        assert run.blows.count(EXECUTOR) <= (EXECUTORS_A_RUN if run.mode == CLUSTER else 0)
        assert not run.blows or run.point != START_UP
        assert not run.blows or run.mode != NO_SPARK
    for modes_ in ((LOCAL, KEPT), (NO_SPARK,)):
        points = Counter(run.point for run in runs if run.mode in modes_)
        assert max(points.values()) - min(points.values()) <= 2
        assert len(points) == 4


@pytest.mark.parametrize("victim", [EXECUTOR, WORKER, MASTER])
def test_drivers_that_need_not_die_end_in_peace(victim: str) -> None:
    runs = plan(Counter({victim: 7}), random.Random(1))
    assert Counter(each for run in runs for each in run.blows) == {victim: 7}
    assert {run.point for run in runs} == {None}


def test_what_is_left_is_planned_alone() -> None:
    (run,) = plan(Counter({DRIVER: 1, SESSION: 1}), random.Random(1))
    assert (run.mode, run.blows) == (LOCAL, ())
    assert run.point not in (None, START_UP)
    assert plan(Counter(), random.Random(1)) == []
    (other,) = plan(Counter({DRIVER: 1, MASTER: 2}), random.Random(1))
    assert (other.mode, other.blows) == (NO_SPARK, (MASTER, MASTER))
    assert other.point is not None


def test_a_seed_gives_the_same_plan() -> None:
    assert plan(WHOLE, random.Random(3)) == plan(WHOLE, random.Random(3))
    assert plan(WHOLE, random.Random(3)) != plan(WHOLE, random.Random(4))
