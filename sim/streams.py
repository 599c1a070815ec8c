"""Named streams of chance from one seed: a draw more in one does not move another (rule 1)."""

from random import Random


class Streams:
    """`streams["net"]` is `Random("<seed>:net")`, made when it is first asked for."""

    def __init__(self, seed: object) -> None:
        self._seed = seed
        self._made: dict[str, Random] = {}

    def __getitem__(self, name: str) -> Random:
        stream = self._made.get(name)
        if stream is None:
            stream = self._made[name] = Random(f"{self._seed}:{name}")
        return stream


class SeededRng:
    """`base.ports.Rng` over one stream."""

    def __init__(self, stream: Random) -> None:
        self._stream = stream

    def randrange(self, stop: int) -> int:
        return self._stream.randrange(stop)
