"""CONTROLLER_GET_TIMELINE 34002: the latest elections, with their ages in ms."""

from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.steps import ControllerCall
from epochmq.controller.timeline import Failover
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import FailoverData, TimelineData
from epochmq.wire.command import Reply


def handle_timeline(core: ControllerCore, call: ControllerCall) -> Reply:
    """Oldest first."""
    now = core.context.now
    found = [_told(failover, now) for failover in core.context.timeline.failovers]
    return Reply(body=encode_body(TimelineData(found)))


def _told(failover: Failover, now: int) -> FailoverData:
    def age(at_ms: int) -> int:
        return -1 if at_ms < 0 else now - at_ms

    return FailoverData(
        *failover.key,
        epoch=failover.epoch,
        master_broker_id=failover.master,
        master_address=failover.address,
        last_heard_ago_ms=age(failover.last_heard_ms),
        detected_ago_ms=age(failover.detected_ms),
        elected_ago_ms=age(failover.elected_ms),
        applied_ago_ms=age(failover.applied_ms),
    )
