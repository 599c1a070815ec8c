"""One plan, one hash; a failure tells all that is needed to see it again (INV-90, rule 7)."""

import os
import pickle
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest
from sim.kernel.plan import Plan
from sim.kernel.run import play
from sim.kernel.tripwires import Tripped, armed
from sim.kernel.violation import Violation
from sim.tools.report import report
from sim.tools.shrink import shrink
from tests.sim.toy import Toy

ROOT = Path(__file__).resolve().parents[2]
LOUD = Plan("store", 0, ("crc_on_scan",))


def test_a_seed_twice_is_one_history() -> None:
    for seed in range(10):
        first, second = play(Plan("toy", seed), Toy), play(Plan("toy", seed), Toy)
        assert first == second
        assert first.violation is None, report(first)
        assert first.events > 300
    assert first.digest != play(Plan("toy", 0), Toy).digest


def test_two_interpreters_agree() -> None:
    code = (
        "from sim.kernel.run import play; from sim.kernel.plan import Plan\n"
        "from tests.sim.toy import Toy\n"
        "for seed in range(50): print(play(Plan('toy', seed), Toy).digest)"
    )
    outputs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:src"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(set(next(iter(outputs)).split())) == 50


def find_failure() -> Plan:
    return next(
        plan
        for seed in range(100)
        if play(plan := replace(LOUD, seed=seed), Toy).violation is not None
    )


def test_a_missing_safeguard_is_found_reported_and_shrunk() -> None:
    plan = find_failure()
    failed = play(plan, Toy)
    small = shrink(failed, lambda p: play(p, Toy))
    assert len(small.faults) == 1
    assert play(small.plan, Toy).digest == small.digest
    text = report(small)
    for part in (
        "TOY-1",
        f"--seed {plan.seed}",
        "--off crc_on_scan",
        "--keep",
        "replay: python -m",
    ):
        assert part in text
    assert len(small.last) == 40
    assert [line.partition(":")[0].partition("#")[0] for line in small.states] == ["a", "b", "c"]


def test_a_dropped_fault_moves_no_other() -> None:
    for seed in range(20):
        whole = Toy(Plan("toy", seed)).faults
        kept = tuple(fault.number for fault in whole[1:])
        assert Toy(Plan("toy", seed, (), kept)).faults == whole[1:]


def test_each_kind_of_fault_fires() -> None:
    marks: set[str] = set()
    for seed in range(150):
        marks.update(play(Plan("toy", seed), Toy).marks)
    from tests.sim.toy import KINDS

    assert {f"fault.{kind}" for kind in KINDS} <= marks
    assert {"net.loss", "net.double"} <= marks


def test_an_error_of_the_code_is_a_violation_with_its_traceback() -> None:
    class Broken(Toy):
        def play(self) -> None:
            raise KeyError("oops")

    outcome = play(Plan("toy", 1), Broken)
    assert outcome.violation is not None
    assert outcome.violation.rule == "CRASH"
    assert "oops" in report(outcome)


def test_the_real_world_is_out_of_reach() -> None:
    with armed():
        for door in (time.time, time.monotonic, random.random, os.urandom):
            with pytest.raises(Tripped):
                door()
    assert time.time() > 0
    assert random.random() < 1


def test_a_violation_comes_home_from_another_process() -> None:
    found = Violation("INV-20", "message 7 is lost", ("b1",), (512,))
    again = pickle.loads(pickle.dumps(found))
    assert (str(again), vars(again)) == (str(found), vars(found))


def test_other_threads_of_the_process_go_on() -> None:
    asked: SimpleQueue[str] = SimpleQueue()
    told: SimpleQueue[object] = SimpleQueue()

    def elsewhere() -> None:
        asked.get()
        try:
            told.put(time.monotonic())
        except Tripped as alarm:
            told.put(alarm)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    with armed():
        asked.put("now")
        assert isinstance(told.get(), float)
    thread.join()
