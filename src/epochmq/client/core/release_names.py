"""Names of RocketMQ's versions: 479 is `V5_3_3`.

Each release has two numbers, the first for its snapshot. 3.0 has patches 1 to 15; 3.1, 3.2 and all
versions from 4.0 on have patches 0 to 9; 3.3 to 3.9 have patches 1 to 9.
"""

_FIRST = 16
"""Smaller numbers belong to the alpha and beta versions of 3.0.0."""

_SPANS = (
    (212, (4, 0), 0, 10),
    (86, (3, 3), 1, 9),
    (46, (3, 1), 0, 10),
    (_FIRST, (3, 0), 1, 15),
)
"""Each row: first number, the minor version that begins there, its first patch, patches
per minor."""


def release_name(number: int) -> str:
    """Return the name of version `number`, also of versions that are not released yet."""
    for begin, (major, minor), first_patch, patches in _SPANS:
        if number >= begin:
            release, is_final = divmod(number - begin, 2)
            minors, patch = divmod(release, patches)
            carry, minor = divmod(minor + minors, 10)
            name = f"V{major + carry}_{minor}_{first_patch + patch}"
            return name if is_final else f"{name}_SNAPSHOT"
    return "V3_0_0"
