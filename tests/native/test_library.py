"""Which of the two is used, and the address sanitiser's opinion of the compiled one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.native import fuzz

import build_native
from epochmq.base.errors import OurBug
from epochmq.native import library
from epochmq.store import native_records, native_send, waits

needs_native = pytest.mark.skipif(library.library() is None, reason=library.which())
needs_compiler = pytest.mark.skipif(build_native.compiler() is None, reason="no C compiler")


@pytest.fixture
def fresh_library() -> Iterator[None]:
    """Look for the library again, before and after."""
    library.find.cache_clear()
    yield
    library.find.cache_clear()


@needs_compiler
def test_where_there_is_a_compiler_native_code_is_built_and_used() -> None:
    assert build_native.build() is None
    assert build_native.source_hash() == library.source_hash()
    if os.environ.get(library.SWITCH) != "off":
        assert library.which() == "compiled"


def test_the_switch_keeps_to_python(fresh_library: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.SWITCH, "off")
    assert library.find() == (None, "python (EPOCHMQ_TWIN=off)")


@pytest.mark.parametrize("content", [None, b"no library"])
def test_without_a_sound_library_python_does_it(
    fresh_library: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    monkeypatch.delenv(library.SWITCH, raising=False)
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "_native.so")
    if content is not None:
        (tmp_path / "_native.so").write_bytes(content)
    assert library.library() is None
    assert library.which().startswith("python (")


@needs_native
def test_a_library_of_other_sources_is_not_trusted(
    fresh_library: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(library.SWITCH, raising=False)
    monkeypatch.setattr(library, "source_hash", lambda: "other")
    assert "older than its source" in library.which()


@needs_native
@given(st.binary(max_size=300))
def test_the_checksum(data: bytes) -> None:
    native = library.library()
    assert native is not None
    assert native.crc(data, len(data)) == crc32(data) & 0x7FFFFFFF


@needs_native
@pytest.mark.parametrize(
    "mirrored", [library.MIRRORED, native_send.MIRRORED, native_records.MIRRORED, waits.MIRRORED]
)
def test_both_sides_have_one_layout(mirrored: dict[str, int]) -> None:
    native = library.library()
    assert native is not None
    assert {name: native.size_of(name) for name in mirrored} == mirrored


@needs_native
@pytest.mark.parametrize("structure", ["batch", "slot", "no_such_structure"])
def test_another_layout_is_refused_before_a_call_could_crash(structure: str) -> None:
    native = library.library()
    assert native is not None
    with pytest.raises(OurBug, match=rf"`{structure}`, Python has 8: change both sides"):
        native.check_sizes({structure: 8})


@needs_compiler
@pytest.mark.slow
def test_no_call_leaves_its_buffers(tmp_path: Path) -> None:
    sanitized = tmp_path / "_native_sanitized.so"
    if (why := build_native.compile_to(sanitized, build_native.SANITIZE)) is not None:
        pytest.skip(f"no sanitisers here: {why}")
    asked = [str(build_native.compiler()), "-print-file-name=libasan.so"]
    runtime = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-m", fuzz.__name__, str(sanitized), "1200"],
        env={
            **os.environ,
            "LD_PRELOAD": runtime,
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[1]) > 500
    assert int(done.stderr.split()[1]) > 600
