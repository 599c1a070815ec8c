"""Figures that several reports need."""


def percentile(ordered: list[float], share: int) -> float:
    """The value below which `share` per cent of them are (nearest rank)."""
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]
