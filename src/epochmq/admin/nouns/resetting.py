"""Moving a group: to a time by its brokers, to offsets queue by queue."""

from epochmq.admin.messages.position import PositionKind, StartPosition, parse
from epochmq.base.errors import Refused, UsageError
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_groups import is_offline
from epochmq.client.aio.admin_progress import TO_END
from epochmq.model.queue import MessageQueue


def position_of(text: str, now_wall_ms: int) -> StartPosition:
    """What `--to` says, see `messages.position`."""
    try:
        return parse(text, now_wall_ms)
    except UsageError as error:
        raise UsageError(str(error).replace("--from", "--to")) from None


async def move(
    admin: Admin, group: str, topic: str, position: StartPosition
) -> dict[MessageQueue, int]:
    """Move `group`; the new offset of every queue."""
    if position.kind in (PositionKind.OFFSET, PositionKind.BACK):
        return await _move_to_offsets(admin, group, topic, position)
    wall_ms = {PositionKind.FIRST: 0, PositionKind.LAST: TO_END}.get(position.kind, position.value)
    try:
        return await admin.reset_offsets(group, topic, wall_ms)
    except Refused as error:
        if not is_offline(error):
            raise
    moved = await admin.reset_offline(group, topic, wall_ms)
    return {each.queue: each.reset_offset for each in moved}


async def _move_to_offsets(
    admin: Admin, group: str, topic: str, position: StartPosition
) -> dict[MessageQueue, int]:
    """Offsets outside of a queue are taken to its nearer end."""
    moved: dict[MessageQueue, int] = {}
    for address in (await admin.brokers_of(topic)).values():
        bounds, _ = await admin.topic_stats_of(address, topic)
        for queue in sorted(bounds):
            low, high = max(bounds[queue].min_offset, 0), bounds[queue].max_offset
            wanted = high - position.value if position.kind is PositionKind.BACK else position.value
            target = min(max(wanted, low), high)
            await admin.reset_queue(address, group, topic, queue.queue_id, target)
            moved[queue] = target
    return moved
