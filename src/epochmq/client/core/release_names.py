"""RocketMQ's name of a version number, as its tools print it: 479 is `V5_3_3`.

Every release takes two numbers, its snapshot's first. 3.0 has .1 to .15, minors 3.1, 3.2 and all
from 4.0 up have .0 to .9, minors 3.3 to 3.9 have .1 to .9.
"""

_FIRST = 16
"""Below it are the many alphas and betas of 3.0.0."""

_SPANS = (
    (212, (4, 0), 0, 10),
    (86, (3, 3), 1, 9),
    (46, (3, 1), 0, 10),
    (_FIRST, (3, 0), 1, 15),
)
"""From this number on: the minor that begins there, its first patch, patches of each minor."""


def release_name(number: int) -> str:
    """The name of version `number`; unreleased ones get the name they would have."""
    for begin, (major, minor), first_patch, patches in _SPANS:
        if number >= begin:
            release, is_final = divmod(number - begin, 2)
            minors, patch = divmod(release, patches)
            carry, minor = divmod(minor + minors, 10)
            name = f"V{major + carry}_{minor}_{first_patch + patch}"
            return name if is_final else f"{name}_SNAPSHOT"
    return "V3_0_0"
