"""Windows: the native code's rows, or numpy's, and the fault that ends them."""

import numpy as np
import pytest
from tests.spark.records import plain

from epochmq.model import record
from epochmq.spark import decode
from epochmq.spark.decode import window

PARTS = [plain(1), plain(2, born=("::1", 5)), record.blank(8), plain(3), plain(4)]


@pytest.mark.parametrize("native", [True, False])
def test_windows_lead_through_a_buffer_with_and_without_native_code(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(decode, "library", lambda: None)
    raw = np.frombuffer(b"".join(PARTS), np.uint8)
    found, at = [], 0
    while at < len(raw):
        step = window(raw, at, at + 150)
        assert step.fault is None
        assert step.stop > at
        found += step.rows.head["queueOffset"].tolist()
        at = step.stop
    assert found == [1, 2, 3, 4]


def test_a_fault_comes_with_the_rows_before_it() -> None:
    raw = np.frombuffer(plain(1, born=("::1", 5)) + plain(2) + bytes(60), np.uint8)
    step = window(raw, 0, len(raw))
    assert len(step.rows) == 2
    assert step.fault is not None
    assert step.fault.offset_in_buffer == step.stop == len(raw) - 60
