"""The decoder's structures, which C lays out as well."""

import pytest

from epochmq.base.errors import OurBug
from epochmq.spark import decode_library
from epochmq.store.native import library

native = library.library()
pytestmark = pytest.mark.skipif(native is None, reason=library.which())


def test_both_sides_have_one_layout() -> None:
    assert native is not None
    sizes = {name: native.size_of(name) for name in decode_library.MIRRORED}
    assert sizes == decode_library.MIRRORED
    assert decode_library.library() is not None


@pytest.mark.parametrize("structure", sorted(decode_library.MIRRORED))
def test_a_field_on_one_side_only_is_an_error_and_no_crash(
    structure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(decode_library.MIRRORED, structure, 8)
    decode_library.library.cache_clear()
    with pytest.raises(OurBug, match=f"`{structure}`"):
        decode_library.library()
    decode_library.library.cache_clear()
