"""`setConsumeMode`."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, mq_command, one_of, opt

if TYPE_CHECKING:
    from epochmq.client.aio import Admin


@mq_command(
    "setConsumeMode",
    opt("b", "brokerAddr", "On one broker, HOST:PORT."),
    opt("c", "clusterName", "On all masters of a cluster."),
    opt("t", "topicName", "The topic.", required=True),
    opt("g", "groupName", "The consumer group.", required=True),
    opt("m", "mode", "PULL or POP.", click.Choice(["PULL", "POP"]), required=True),
    opt(
        "q",
        "popShareQueueNum",
        "With POP: own queues and those of so many next members; 0 is all.",
        click.IntRange(-1),
        default=0,
    ),
)
async def set_consume_mode(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    topic_name: str,
    group_name: str,
    mode: str,
    pop_share_queue_num: int,
) -> None:
    """Say whether a group pulls a topic, or pops it."""
    one_of(broker_addr, cluster_name, "-b BROKERADDR, -c CLUSTERNAME")
    masters = [broker_addr] if broker_addr else (await admin.masters(cluster_name)).values()
    for address in masters:
        await admin.set_request_mode(address, topic_name, group_name, mode, pop_share_queue_num)
        row = {
            "broker": address,
            "topic": topic_name,
            "group": group_name,
            "mode": mode,
            "popShareQueueNum": pop_share_queue_num,
        }
        out.line(f"set consume mode to {address} success.", row)
    out.line(
        f"topic[{topic_name}] group[{group_name}] consume mode[{mode}]"
        f" popShareQueueNum[{pop_share_queue_num}]"
    )


COMMANDS = {"setConsumeMode": set_consume_mode}
