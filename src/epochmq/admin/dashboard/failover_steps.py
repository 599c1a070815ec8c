"""Failovers as steps with times, from what controllers report and what was seen of the cluster."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from epochmq.admin.top.cluster_view import BrokerGroupView, ClusterView
from epochmq.wire.bodies.controller_bodies import FailoverData

FAILOVERS_MAX = 200
_AGES = (
    ("last heard", "last_heard_ago_ms"),
    ("detected", "detected_ago_ms"),
    ("elected", "elected_ago_ms"),
    ("role applied", "applied_ago_ms"),
)
FIRST_ACKNOWLEDGEMENT = "first acknowledgement"
SET_COMPLETE = "set complete"


@dataclass(slots=True)
class FailoverStory:
    """One election. `steps` has the wall ms of each step that is known, in the order of steps."""

    group: str
    epoch: int
    master: str
    steps: dict[str, int] = field(default_factory=dict)

    def row(self) -> dict[str, object]:
        """Return the failover for JSON; the times are wall ms."""
        return {
            "group": self.group,
            "epoch": self.epoch,
            "master": self.master,
            "steps": [{"step": name, "wall_ms": at} for name, at in self.steps.items()],
        }


class FailoverStories:
    """The latest failovers of a cluster, oldest first.

    Controllers report the steps up to the new role. The first acknowledgement and the complete set
    are seen by looking at the cluster, so their times are those of the first look.
    """

    def __init__(self) -> None:
        self._stories: OrderedDict[tuple[str, int], FailoverStory] = OrderedDict()
        self._first_look_ms: int | None = None
        """Wall ms; later steps of elections before it were not seen when they happened."""

    def add_reports(self, reports: Iterable[FailoverData], wall_ms: int) -> bool:
        """Add what controllers report; `wall_ms` is now. Returns whether a step is new."""
        is_new = False
        for report in reports:
            key = report.broker_name, report.epoch
            story = self._stories.setdefault(
                key, FailoverStory(report.broker_name, report.epoch, report.master_address)
            )
            for name, attribute in _AGES:
                ago = getattr(report, attribute)
                if ago >= 0 and name not in story.steps:
                    story.steps[name] = wall_ms - ago
                    is_new = True
        if is_new:
            self._sort()
        return is_new

    def add_view(self, view: ClusterView) -> bool:
        """Add what a look at the cluster shows. Returns whether a step is new."""
        if self._first_look_ms is None:
            self._first_look_ms = view.wall_ms
        found = [self._add_group(group, view.wall_ms) for group in view.groups]
        return any(found)

    def rows(self) -> list[dict[str, object]]:
        """Return all failovers for JSON."""
        return [story.row() for story in self._stories.values()]

    def _add_group(self, group: BrokerGroupView, wall_ms: int) -> bool:
        story = self._stories.get((group.name, group.master_epoch))
        if story is None or story.steps.get("elected", 0) < (self._first_look_ms or 0):
            return False
        master = next((r for r in group.replicas if r.is_master and r.alive), None)
        is_new = False
        if FIRST_ACKNOWLEDGEMENT not in story.steps and master is not None and master.has_confirmed:
            story.steps[FIRST_ACKNOWLEDGEMENT] = wall_ms
            is_new = True
        is_whole = all(replica.alive and replica.in_sync for replica in group.replicas)
        if SET_COMPLETE not in story.steps and is_whole and master is not None:
            story.steps[SET_COMPLETE] = wall_ms
            is_new = True
        return is_new

    def _sort(self) -> None:
        """Keep the latest; the order is that of the elections."""
        stories = sorted(self._stories.items(), key=lambda item: _elected_ms(item[1]))
        self._stories = OrderedDict(stories[-FAILOVERS_MAX:])


def _elected_ms(story: FailoverStory) -> int:
    return story.steps.get("elected") or max(story.steps.values(), default=0)
