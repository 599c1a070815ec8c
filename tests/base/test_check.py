"""Checks that stay on."""

import pytest

from epochmq.base.errors import OurBug, check


def test_a_breach_names_the_rule() -> None:
    check(True, "INV-11")
    with pytest.raises(OurBug, match="INV-11"):
        check(False, "INV-11")
