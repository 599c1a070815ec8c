"""The decoder's structures, which C lays out as well."""

import pytest

from epochmq.base.errors import OurBug
from epochmq.native import library
from epochmq.spark import decode_native

native = library.library()
pytestmark = pytest.mark.skipif(native is None, reason=library.which())


def test_both_sides_have_one_layout() -> None:
    assert native is not None
    sizes = {name: native.size_of(name) for name in decode_native.MIRRORED}
    assert sizes == decode_native.MIRRORED
    assert decode_native.library() is not None


@pytest.mark.parametrize("structure", sorted(decode_native.MIRRORED))
def test_a_field_on_one_side_only_is_an_error_and_no_crash(
    structure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(decode_native.MIRRORED, structure, 8)
    decode_native.library.cache_clear()
    with pytest.raises(OurBug, match=f"`{structure}`"):
        decode_native.library()
    decode_native.library.cache_clear()
