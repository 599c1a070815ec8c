"""Named random streams from one seed: an extra draw in one does not change another (rule 1)."""

from random import Random


class Streams:
    """Random streams by name: `streams["net"]` is `Random("<seed>:net")`, created on first use."""

    def __init__(self, seed: object) -> None:
        self._seed = seed
        self._made: dict[str, Random] = {}

    def __getitem__(self, name: str) -> Random:
        stream = self._made.get(name)
        if stream is None:
            stream = self._made[name] = Random(f"{self._seed}:{name}")
        return stream


class SeededRng:
    """Implements `base.ports.Rng` with one stream."""

    def __init__(self, stream: Random) -> None:
        self._stream = stream

    def randrange(self, stop: int) -> int:
        return self._stream.randrange(stop)
