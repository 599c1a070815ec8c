"""The list of tests that `make test` leaves out."""

from pathlib import Path

from tests.tiers import LandingTests

ROOT = Path(__file__).parent.parent


def test_a_line_is_a_beginning_or_a_part_of_ids() -> None:
    tests = LandingTests("# about\n   12 tests/a.py::test_x[one\n    3 *[java\n")
    assert "tests/a.py::test_x[one-2]" in tests
    assert "tests/b.py::test_y[java]" in tests
    assert "tests/a.py::test_x[two]" not in tests


def test_each_test_of_the_list_is_in_its_file() -> None:
    for beginning in LandingTests.read().beginnings:
        path, _, name = beginning.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        if "Contract" in text:  # its tests are inherited
            text += (ROOT / "tests/compat/contract.py").read_text(encoding="utf-8")
        for part in name.partition("[")[0].split("::"):
            assert part in text or "::runTest" in beginning, beginning
