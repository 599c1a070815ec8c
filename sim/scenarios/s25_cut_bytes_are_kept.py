"""S25 (promise page): a truncation that removes bytes is never silent.

Expected: what a deposed master has to give up lies in `cut/`, byte for byte, with its place and
epoch in the name.
"""

from collections.abc import Iterator

from sim.kernel.violation import Violation
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base
from sim.store.store_shell import log_span


class Story(Base):
    name = "S25"
    minimum = 1

    def script(self) -> Iterator[Step]:
        a = self.master()
        self.cut(a, tuple(self.others(a)))
        yield lambda: self.tail(a) > 500
        self.cut(a, self.controllers)
        yield lambda: self.is_master(*self.others(a))
        store = self.broker(a).store
        confirmed, end = store.pointers.confirmed, store.pointers.appended
        tail = log_span(store, confirmed, end)
        yield self.noise(20, 100)
        before = self.world.marks["covered.truncated"]
        self.mend()
        yield lambda: self.world.marks["covered.truncated"] > before
        yield self.noise(1, 50)
        disk = self.host(a).disk
        kept = b"".join(disk.read_file(f"cut/{name}") or b"" for name in disk.list("cut"))
        if tail[-300:] not in kept:
            raise Violation("INV-15", "what was cut is not kept", (a,), (confirmed, end))
