"""Each house rule on a small tree: what it catches and what it lets pass."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tidy

Write = Callable[[dict[str, str]], list[str]]


@pytest.fixture
def findings(tmp_path: Path) -> Write:
    """Write a tree of files, return its findings as `path:line rule` texts."""

    def run(files: dict[str, str]) -> list[str]:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [f"{f.path}:{f.line} {f.rule}" for f in tidy.check_tree(tmp_path)]

    return run


def module(*parts: str) -> str:
    return "src/epochmq/" + "/".join(parts)


def rules(found: list[str], rule: str) -> list[str]:
    return [f.rsplit(" ", 1)[0] for f in found if f.endswith(f" {rule}")]


def long_module(statements: int) -> str:
    return "def f():\n" + "".join(f"    a{n} = {n}\n" for n in range(statements))


# layer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("base/a.py", "from epochmq.model import record"),
        ("store/a.py", "import epochmq.wire.codes"),
        ("wire/a.py", "from epochmq import store"),
        ("broker/a.py", "from ..client import aio"),
        ("store/deep/a.py", "from ...broker import roles"),
        ("client/core/a.py", "from epochmq.runtime import clock"),
        ("runtime/a.py", "from epochmq.auth import users"),
        ("spark/a.py", "from epochmq.admin import cli"),
        ("store/a.py", "def late():\n    from epochmq.broker import roles"),
        ("admin/a.py", "import sim.kernel.world"),
        ("admin/a.py", "from tests import helpers"),
        ("mystery/a.py", "x = 1"),
    ],
)
def test_an_import_upwards_or_sideways_is_found(
    findings: Write, importer: str, statement: str
) -> None:
    assert rules(findings({module(importer): statement}), "layer")


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("model/a.py", "from epochmq.base import types"),
        ("store/a.py", "from epochmq.store import b"),
        ("store/a.py", "from . import b"),
        ("store/a.py", "from ..base import types"),
        ("client/aio/a.py", "from epochmq.runtime import clock"),
        ("admin/a.py", "from epochmq.broker import roles"),
        ("broker/a.py", "from epochmq import __version__"),
        ("__main__.py", "from epochmq.admin import cli"),
    ],
)
def test_an_import_downwards_or_inside_passes(
    findings: Write, importer: str, statement: str
) -> None:
    assert not rules(findings({module(importer): statement}), "layer")


def test_the_product_does_not_import_an_example(findings: Write) -> None:
    found = findings({module("admin/a.py"): "from examples.shop import till"})
    assert rules(found, "layer") == [module("admin/a.py:1")]


def test_examples_have_the_rules_of_all_code(findings: Write) -> None:
    text = "class Same: ...\ndef a(lane): return f(*(1, 2))\n" + "# " + "x" * 100 + "\n"
    long = long_module(tidy.FUNCTION_LINES_MAX + 1)
    more = {module("store/same.py"): "class Same: ...", "examples/shop/long.py": long}
    found = findings({"examples/shop/till.py": text + "# `no/such.py`\n", **more})
    assert [f for f in found if f.startswith("examples/")] == [
        "examples/shop/long.py:1 size",
        "examples/shop/till.py:1 unique",
        "examples/shop/till.py:2 splat",
        "examples/shop/till.py:2 word",
        "examples/shop/till.py:3 size",
        "examples/shop/till.py:4 cite",
    ]


# cycle -------------------------------------------------------------------------------------------


def test_modules_that_import_each_other_are_found(findings: Write) -> None:
    files = {
        module("store/a.py"): "from epochmq.store import b",
        module("store/b.py"): "def late():\n    from epochmq.store import c",
        module("store/c.py"): "from .a import x",
    }
    assert rules(findings(files), "cycle") == [module("store/a.py:1")]


def test_folders_that_import_each_other_are_found(findings: Write) -> None:
    files = {
        module("store/low.py"): "x = 1",
        module("store/high.py"): "from epochmq.store.part.middle import y",
        module("store/part/middle.py"): "from epochmq.store.low import x as y",
    }
    found = rules(findings(files), "package-cycle")
    assert found == [module("store/high.py:1"), module("store/part/middle.py:1")]


def test_folders_of_the_simulator_that_import_each_other_are_found(findings: Write) -> None:
    files = {
        "sim/kernel/world.py": "from sim.checkers.base import Checker",
        "sim/checkers/base.py": "if TYPE_CHECKING:\n    from sim.kernel.world import World",
    }
    found = rules(findings(files), "package-cycle")
    assert found == ["sim/checkers/base.py:2", "sim/kernel/world.py:1"]


def test_a_diamond_is_no_cycle(findings: Write) -> None:
    files = {
        module("store/a.py"): "from . import b, c",
        module("store/b.py"): "from . import d",
        module("store/c.py"): "from . import d",
        module("store/d.py"): "x = 1",
    }
    assert not rules(findings(files), "cycle")


# colour ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "async def f():\n    await g()",
        "async def f():\n    async with g():\n        pass",
        "class A:\n    async def f(self):\n        return 1",
    ],
)
@pytest.mark.parametrize("path", ["broker/a.py", "client/sync/a.py", "store/a.py"])
def test_async_code_in_a_plain_file_is_found(findings: Write, path: str, text: str) -> None:
    assert rules(findings({module(path): text}), "colour")


@pytest.mark.parametrize(
    "path",
    [
        "broker/server/broker_server.py",
        "nameserver/name_server.py",
        "replication/master_link.py",
        "runtime/a.py",
        "client/aio/a.py",
        "admin/a.py",
        "spark/a.py",
    ],
)
def test_async_code_in_an_async_file_passes(findings: Write, path: str) -> None:
    assert not rules(findings({module(path): "async def f():\n    await g()"}), "colour")


def test_a_declared_coroutine_without_a_body_passes(findings: Write) -> None:
    text = 'class Net:\n    async def dial(self):\n        """Connect."""\n        ...\n'
    assert not rules(findings({module("base/ports.py"): text}), "colour")


# impure, danger ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import time\nx = time.time()",
        "import time as t\nx = t.monotonic",
        "from time import sleep",
        "import random\nx = random.random()",
        "from random import shuffle",
        "import uuid",
        "import os\nx = os.urandom(4)",
        "import secrets",
        "import datetime\nx = datetime.datetime.now()",
        "from datetime import datetime\nx = datetime.now()",
        "from datetime import datetime as d\nx = d.utcnow()",
        "import threading",
        "from socket import socket",
        "import signal",
        "x = open('f')",
        "import os\nos.fsync(3)",
        "import mmap",
    ],
)
def test_the_outside_world_is_found_outside_runtime(findings: Write, text: str) -> None:
    found = findings({module(f"{folder}/a.py"): text for folder in ("store", "runtime", "admin")})
    assert {path.split(":")[0] for path in rules(found, "impure")} == {module("store/a.py")}


def test_pages_without_a_file_are_asked_for_in_one_place(findings: Write) -> None:
    text = "import mmap\nx = mmap.mmap(-1, 9)"
    found = findings({module("native/memory.py"): text, module("store/memory.py"): text})
    assert {path.split(":")[0] for path in rules(found, "impure")} == {module("store/memory.py")}


@pytest.mark.parametrize(
    "text",
    [
        "import random\nrng = random.Random(7)",
        "import time\nx = time.gmtime(0)",
        "from datetime import datetime\nx = datetime.fromtimestamp(0)",
        "def f(time, random, signal):\n    return time.time(), random.random(), signal",
        "class A:\n    def open(self):\n        return self.disk.open()",
        "import os.path\nx = os.path.join('a', 'b')",
    ],
)
def test_values_that_only_look_impure_pass(findings: Write, text: str) -> None:
    assert not rules(findings({module("store/a.py"): text}), "impure")


@pytest.mark.parametrize("path", ["runtime/a.py", "admin/a.py", "store/a.py"])
@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system('ls')",
        "x = eval('1')",
        "exec('x = 1')",
        "import pickle",
        "from yaml import load",
        "import marshal",
        "import shelve",
        "run('ls', shell=True)",
        "run('ls', shell=flag)",
        "import asyncio\nasyncio.create_subprocess_shell('ls')",
    ],
)
def test_code_from_text_is_found_everywhere(findings: Write, path: str, text: str) -> None:
    assert rules(findings({module(path): text}), "danger")


def test_processes_start_in_admin_only(findings: Write) -> None:
    text = "import subprocess\nsubprocess.run(['ls'], shell=False)"
    found = findings({module("admin/dev.py"): text, module("runtime/a.py"): text})
    assert {f.split(":")[0] for f in rules(found, "danger")} == {module("runtime/a.py")}


# size, median ------------------------------------------------------------------------------------


def test_sizes_are_held(findings: Write) -> None:
    found = findings(
        {
            module("store/long.py"): "x = 1\n" * 601,
            module("store/fits.py"): "x = 1\n" * 600,
            module("store/wide.py"): f"x = '{'y' * 100}'\n",
            module("store/deep.py"): long_module(81),
            "tests/store/test_long.py": "x = 1\n" * 801,
            "tests/store/test_fits.py": "x = 1\n" * 800,
        }
    )
    assert rules(found, "size") == [
        module("store/deep.py:1"),
        module("store/long.py:601"),
        module("store/wide.py:1"),
        "tests/store/test_long.py:801",
    ]


def test_only_code_lines_count(findings: Write) -> None:
    padding = "    # why\n\n" * 60
    text = f'def f():\n    """Say\n\n    what.\n    """\n{padding}{long_module(60)[9:]}'
    assert not rules(findings({module("store/a.py"): text}), "size")


def test_the_median_is_held_at_the_ratchet(findings: Write) -> None:
    files = {module("store/a.py"): long_module(13)}
    assert rules(findings(files), "median") == [f"{tidy.RATCHET}:1"]
    assert not rules(findings({tidy.RATCHET: '{"function_median": 13}'}), "median")


# unused, untested, stale -------------------------------------------------------------------------


def test_a_module_nobody_imports_is_found(findings: Write) -> None:
    files = {
        module("admin/cli.py"): "from epochmq.store import used\nLAZY = 'epochmq.admin.cmd.'\n",
        module("admin/cmd/topic.py"): "COMMAND = 'epochmq.admin.named:main'",
        module("admin/named.py"): "x = 1",
        module("store/__init__.py"): "",
        module("store/used.py"): "x = 1",
        module("store/dead.py"): "x = 1",
    }
    assert rules(findings(files), "unused") == [module("store/dead.py:1")]


def test_a_module_without_its_test_is_found(findings: Write) -> None:
    files = {
        module("store/big.py"): long_module(20),
        module("store/small.py"): long_module(3),
        module("store/table.py"): "x = 1\n" * 30,
        module("store/sub/covered.py"): long_module(20),
        "tests/store/sub/test_covered.py": "",
    }
    assert rules(findings(files), "untested") == [module("store/big.py:1")]


def test_the_ratchet_excuses_and_reports_what_it_excuses_for_nothing(findings: Write) -> None:
    excused = {"untested": ["epochmq.store.big", "epochmq.store.gone"]}
    files = {module("store/big.py"): long_module(20), tidy.RATCHET: json.dumps(excused)}
    found = findings(files)
    assert not rules(found, "untested")
    assert rules(found, "stale") == [f"{tidy.RATCHET}:1"]


def test_tightening_only_goes_down(findings: Write, tmp_path: Path) -> None:
    before = {"function_median": 20.0, "untested": ["epochmq.store.gone", "epochmq.store.big"]}
    findings({module("store/big.py"): long_module(17), tidy.RATCHET: json.dumps(before)})
    assert tidy.tighten(tmp_path) == {
        "file_median": 200.0,
        "function_median": 17.0,
        "unused": [],
        "untested": ["epochmq.store.big"],
    }
    findings({module("store/big.py"): long_module(30)})
    assert tidy.tighten(tmp_path)["function_median"] == 17.0


# text --------------------------------------------------------------------------------------------


def test_unfinished_work_is_found(findings: Write) -> None:
    marker = "TO" + "DO"
    found = findings({module("store/a.py"): f"# {marker}: later", "docs/a.md": f"fine\n{marker}\n"})
    assert rules(found, "unfinished") == ["docs/a.md:2", module("store/a.py:1")]


@pytest.mark.parametrize("bad", ["/wor" + "k/main", "/roo" + "t/.cache", "--index" + "-url x"])
def test_paths_of_one_machine_are_found(findings: Write, bad: str) -> None:
    assert rules(findings({"README.md": f"see {bad}"}), "path") == ["README.md:1"]


def test_ordinary_paths_pass(findings: Write) -> None:
    assert not rules(findings({"README.md": "src/work/a and docs/adr/0001 and /tmp/x"}), "path")


# word, cite ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "class TimerHands:\n    pass",
        "def from_afar():\n    return 1",
        "def f(outlet):\n    return outlet",
        "old_dialect = 1",
        "class A:\n    def __init__(self):\n        self._saver = 1",
        "PATIENCE_MS = 5",
    ],
)
def test_a_retired_word_is_found(findings: Write, text: str) -> None:
    found = findings({module("store/a.py"): text})
    assert len(rules(found, "word")) == 1


def test_a_module_of_a_retired_name_is_found(findings: Write) -> None:
    found = findings({module("broker/seam/cut.py"): "a = 1"})
    assert rules(found, "word") == [module("broker/seam/cut.py:1")]


def test_prose_and_words_that_only_contain_one_pass(findings: Write) -> None:
    text = '"""The consumer has it in its hands."""\nseamless = shorthands = 1'
    assert not rules(findings({module("store/a.py"): text}), "word")


def test_every_retired_word_stands_in_the_glossary() -> None:
    glossary = (Path(tidy.__file__).parent.parent / "docs" / "GLOSSARY.md").read_text()
    retired = " ".join(glossary.partition("## Retired words")[2].split())
    assert [word for word in tidy.RETIRED if f"{word} (" not in retired] == []


def test_a_cited_file_must_be_there(findings: Write) -> None:
    text = '"""See `raft/raft_log.py` and `raft_log.py`, not `raft/gone.py`."""\n'
    files = {module("raft/raft_log.py"): "a = 1", module("store/a.py"): text}
    files["docs/X.md"] = "a\n`gone.py`, `src/epochmq/raft/raft_log.py`, `raft_log.py::test`"
    found = rules(findings(files), "cite")
    assert found == ["docs/X.md:2", module("store/a.py:1")]


def test_starred_tuples_are_found(findings: Write) -> None:
    text = "def f(*given: int) -> None:\n    f(*(1, 2), 3)\n    f(*given)\n    print([*[1], 2])\n"
    found = findings({module("store/a.py"): text})
    assert rules(found, "splat") == [module("store/a.py:2"), module("store/a.py:4")]


def test_a_function_put_into_another_object_is_found(findings: Write) -> None:
    text = (
        "class A:\n"
        "    def __init__(self, b):\n"
        "        b.on_change = self.changed\n"
        "        b.parts.clock = lambda: 0\n"
        "        self.parts = b.changed\n"
        "        b.count = self.count = 1\n"
        "    def changed(self):\n"
        "        return self.parts\n"
    )
    found = rules(findings({module("store/a.py"): text}), "late-binding")
    assert found == [module("store/a.py:3"), module("store/a.py:4")]


def test_a_test_of_another_package_uses_nothing_private(findings: Write) -> None:
    owner = "class A:\n    def __init__(self):\n        self._log = 1\n    def _cut(self): ...\n"
    used = "def test(a, row):\n    assert a._log and row._replace(b=1)\n    a._cut(a._helper)\n"
    helper = "class H:\n    def _helper(self):\n        return self._log\n"
    found = findings(
        {
            module("store/a.py"): owner,
            "tests/store/test_a.py": used,
            "tests/wire/test_a.py": used,
            "tests/wire/helper.py": helper.replace("_log", "_own"),
        }
    )
    assert rules(found, "private") == ["tests/wire/test_a.py:2", "tests/wire/test_a.py:3"]


def test_two_classes_or_modules_of_one_name_are_found(findings: Write) -> None:
    text = "class Batch:\n    pass\n"
    files = {module("store/a.py"): text, module("wire/a.py"): "b = 1\n"}
    files |= {module("wire/b.py"): f"x = 1\n{text}", module("wire/options.py"): "c = 1\n"}
    files[module("store/options.py")] = "class Producer:\n    pass\n"
    files[module("store/c.py")] = "class Producer:\n    pass\n"
    found = rules(findings(files), "unique")
    assert found == [module("wire/a.py:1"), module("wire/b.py:2")]


def test_a_cited_page_must_be_there(findings: Write) -> None:
    text = '"""Layouts: facts/store.md 2.1, docs/X.md, X.md and https://a.b/Y.md."""\n'
    found = rules(findings({"docs/X.md": "a\n", module("store/a.py"): text}), "cite")
    assert found == [module("store/a.py:1")]


# the command -------------------------------------------------------------------------------------


def test_a_file_that_does_not_parse_is_one_finding(findings: Write) -> None:
    assert rules(findings({module("store/a.py"): "x = 1\ndef (:\n"}), "syntax") == [
        module("store/a.py:2")
    ]


def test_the_command_prints_one_line_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / module("store/a.py")
    path.parent.mkdir(parents=True)
    path.write_text("import pickle\n")
    assert tidy.main(["--root", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"{module('store/a.py')}:1: danger: pickle is banned in the product" in lines


def test_a_clean_tree_exits_with_zero(tmp_path: Path) -> None:
    assert tidy.main(["--root", str(tmp_path)]) == 0


@pytest.mark.parametrize("rule", sorted(tidy.RULES))
def test_every_rule_explains_itself(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tidy.main(["--explain", rule]) == 0
    assert capsys.readouterr().out.startswith(f"{rule}: ")


def test_an_unknown_rule_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert tidy.main(["--explain", "nonsense"]) == 2
    assert "there are: " in capsys.readouterr().err
