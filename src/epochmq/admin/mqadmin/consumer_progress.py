"""`consumerProgress`."""

from typing import TYPE_CHECKING

from epochmq.admin.mqadmin.running import Out, mq_command, opt
from epochmq.admin.shared import group_figures
from epochmq.admin.shared.group_figures import OFFLINE, QueuePosition, Summary
from epochmq.admin.shared.java_text import second
from epochmq.admin.shared.output import Bar
from epochmq.model.names import RETRY, is_retry_topic

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_START = "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  "
_QUEUE = _START + "{:<20} {:<20} {}"
_QUEUE_IP = _START + "{:<20} {:<20} {:<20} {}"
_TITLES = ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
# Upstream's head lacks the blank before the last title.
_QUEUE_HEAD = (_START + "{:<20} {:<20}{}").format(*_TITLES, "#Diff", "#Inflight", "#LastTime")
_QUEUE_IP_HEAD = (_START + "{:<20} {:<20} {:<20}{}").format(
    *_TITLES, "#Client IP", "#Diff", "#Inflight", "#LastTime"
)
_GROUP = "{:<64}  {:<6}  {:<24} {:<5}  {:<14}  {:<7}  {}"
_GROUP_HEAD = _GROUP.format(
    "#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total"
)


@mq_command(
    "consumerProgress",
    opt("g", "groupName", "One group, queue by queue."),
    opt("t", "topicName", "With -g: one topic only."),
    opt("s", "showClientIP", "With -g: whose each queue is (true or false).", bool),
    opt("c", "cluster", "Taken and not needed: routes tell the cluster."),
)
async def consumer_progress(
    admin: "Admin",
    out: Out,
    group_name: str | None,
    topic_name: str | None,
    show_client_ip: bool | None,
    cluster: str | None,
) -> None:
    """Print how far a group is in each queue, or how far all groups are."""
    if group_name is not None:
        await _one_group(admin, out, group_name, topic_name, bool(show_client_ip))
    else:
        await _all_groups(admin, out)


async def _one_group(admin: "Admin", out: Out, group: str, topic: str | None, owners: bool) -> None:
    found = await group_figures.progress(admin, group, topic, owners=owners)
    out.line(_QUEUE_IP_HEAD if owners else _QUEUE_HEAD)
    for position in found.positions:
        out.line(queue_line(position, owners), position.row())
    out.line()
    out.line(f"Consume TPS: {found.tps:.2f}")
    out.line(f"Consume Diff Total: {found.lag}")
    out.line(f"Consume Inflight Total: {found.in_flight}")


def queue_line(at: QueuePosition, owners: bool) -> str:
    """One queue of a group."""
    return (_QUEUE_IP if owners else _QUEUE).format(
        at.queue.topic[:64],
        at.queue.broker_name[:32],
        at.queue.queue_id,
        at.broker_offset,
        at.consumer_offset,
        *([at.owner.partition("@")[0] if at.owner else "N/A"] if owners else []),
        at.lag,
        at.in_flight,
        second(at.last_wall_ms) if at.last_wall_ms else "N/A",
    )


async def _all_groups(admin: "Admin", out: Out) -> None:
    out.line(_GROUP_HEAD)
    groups = [t.removeprefix(RETRY) for t in await admin.topics() if is_retry_topic(t)]
    with Bar("asking", total=len(groups)) as bar:
        for done, group in enumerate(groups):
            found = await group_figures.summary(admin, group)
            bar.set(done + 1, group)
            out.line(group_line(found), found.row())


def group_line(found: Summary) -> str:
    """One group among all."""
    return _GROUP.format(
        found.group[:64],
        found.members,
        found.version or OFFLINE,
        found.kind,
        found.model,
        int(found.tps),
        found.lag,
    )


COMMANDS = {"consumerProgress": consumer_progress}
