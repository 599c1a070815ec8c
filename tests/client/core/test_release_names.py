"""RocketMQ's version numbers (gives 413, 479 and more)."""

import pytest

from epochmq.client.core.release_names import release_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "V3_0_0"),
        (16, "V3_0_1_SNAPSHOT"),
        (37, "V3_0_11"),
        (45, "V3_0_15"),
        (46, "V3_1_0_SNAPSHOT"),
        (85, "V3_2_9"),
        (86, "V3_3_1_SNAPSHOT"),
        (121, "V3_4_9"),
        (211, "V3_9_9"),
        (232, "V4_1_0_SNAPSHOT"),
        (401, "V4_9_4"),
        (413, "V5_0_0"),
        (453, "V5_2_0"),
        (475, "V5_3_1"),
        (479, "V5_3_3"),
        (613, "V6_0_0"),
    ],
)
def test_names_releases(number: int, name: str) -> None:
    assert release_name(number) == name
