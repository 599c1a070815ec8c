"""Runtime information and figures of a broker: GET_BROKER_RUNTIME_INFO 28, with RocketMQ's keys.

Keys of thread-pool queues and page-cache locks exist with the value 0, because tools print them;
EpochMQ has neither. Its own keys are `epochmqVersion`, `epochmqAppend` (native code or Python),
`epochmqProblem` (why the broker is not well, or empty), `storeFenced` (why the store writes nothing
more, or empty), `storeDiskFull`, `epochmqEscape...` (what is forwarded to other masters, ADR 0051),
and the figures of the process (`runtime/process.py`).
"""

from epochmq import __version__
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.context.broker_problem import any_problem_of
from epochmq.broker.requests.common import NodeHandler, ok
from epochmq.model import names
from epochmq.native import library
from epochmq.wire.bodies.namesrv_bodies import KVTable
from epochmq.wire.codes import OUR_VERSION, RequestCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session

_VERSION_NAME = "V5_0_0"
_POOLS = ("send", "pull", "litePull", "query", "ack")
_ZERO = {
    **{f"{pool}ThreadPoolQueueSize": "0" for pool in _POOLS},
    **{f"{pool}ThreadPoolQueueCapacity": "0" for pool in _POOLS},
    **{f"{pool}ThreadPoolQueueHeadWaitTimeMills": "0" for pool in _POOLS},
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "0",
    "pageCacheLockTimeMills": "0",
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
    "remainTransientStoreBufferNumbs": "0",
    "getMessageEntireTimeMax": "0",
    "dispatchMaxBuffer": "0",
}
_UNITS = "KMGTPE"
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000


def handle_runtime_info(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer all figures as text (28); rates are three numbers, over 10 s, 1 min and 10 min."""
    return ok(KVTable(runtime_info(node)))


def runtime_info(node: BrokerContext) -> dict[str, str]:
    """Return the whole table, with sorted keys."""
    table = {**_ZERO, **_identity(node), **_traffic(node), **_log(node), **_delays(node)}
    table |= {**_place(node), **_timer(node), **node.escape_figures(node.clock.now_ms())}
    table |= node.ports.process_figures()
    return dict(sorted(table.items()))


def _identity(node: BrokerContext) -> dict[str, str]:
    return {
        "brokerActive": str(node.serving.rights.secondary).lower(),
        "brokerVersion": str(OUR_VERSION),
        "brokerVersionDesc": _VERSION_NAME,
        "epochmqVersion": __version__,
        "epochmqAppend": library.which(),
        "epochmqProblem": any_problem_of(node),
        "bootTimestamp": str(node.started_wall_ms),
        "runtime": span_text(max(0, node.clock.wall_ms() - node.started_wall_ms)),
        "startAcceptSendRequestTimeStamp": str(node.options.start_accept_send_request_time_stamp),
    }


def _place(node: BrokerContext) -> dict[str, str]:
    """Return EpochMQ's figures of role, epochs and sync-state set, and those of replication."""
    place = node.group_position
    table = {
        "epochmqRole": _role(node),
        "epochmqBrokerId": str(place.own_id),
        "epochmqConfirmOffset": str(node.store.pointers.confirmed),
        **_damage(node),
    }
    if node.options.enable_controller_mode:
        table["epochmqMasterEpoch"] = str(place.epoch)
        table["epochmqMasterBrokerId"] = "" if place.master_id is None else str(place.master_id)
        table["epochmqSyncStateSet"] = ",".join(map(str, sorted(place.members)))
        table["epochmqSyncStateSetEpoch"] = str(place.set_epoch)
    return table if node.replica is None else {**table, **node.replica.figures()}


def _damage(node: BrokerContext) -> dict[str, str]:
    """Return figures of damaged ranges of the log: found since the start, repaired, waiting.

    The figures also count blocks that differ from those of another replica.
    """
    damage, differences = node.store.damage, node.differences
    return {
        "epochmqDamageFound": str(damage.found),
        "epochmqDamageRepaired": str(damage.repaired),
        "epochmqDamageWaiting": str(len(damage.ranges)),
        "epochmqDamageFirst": str(damage.ranges[0]) if damage.ranges else "",
        "epochmqQueueUnitsRebuilt": str(damage.units_rebuilt),
        "epochmqReplicaBytesCompared": str(differences.same_bytes),
        "epochmqReplicaBlocksDiffer": str(len(differences)),
        "epochmqReplicaFirstDiffers": differences.first,
    }


def _role(node: BrokerContext) -> str:
    """Return the name of the role; FENCED for a master whose lease is over."""
    fenced = node.serving.is_master and not node.serving.rights.registers
    return "FENCED" if fenced else node.serving.role.name


def _traffic(node: BrokerContext) -> dict[str, str]:
    stats = node.stats
    hits, misses = stats.pull_hits, stats.pull_misses
    total = [f"{hits.rate(s) + misses.rate(s):.2f}" for s in (10, 60, 600)]
    put, put_bytes = stats.put.total, stats.put_bytes.total
    return {
        "putTps": stats.put.text(),
        "getTransferredTps": stats.get_found.text(),
        "getFoundTps": hits.text(),
        "getMissTps": misses.text(),
        "getTotalTps": " ".join(total),
        "putMessageTimesTotal": str(put),
        "putMessageFailedTimes": str(stats.put_failed),
        "putMessageDistributeTime": stats.put_times.text(),
        "putMessageEntireTimeMax": str(stats.put_times.longest_ms),
        "putMessageSizeTotal": str(put_bytes),
        "putMessageAverageSize": str(put_bytes / max(1, put)),
        "msgPutTotalYesterdayMorning": str(stats.put_yesterday_morning),
        "msgPutTotalTodayMorning": str(stats.put_today_morning),
        "msgPutTotalTodayNow": str(put),
        "msgGetTotalYesterdayMorning": str(stats.get_yesterday_morning),
        "msgGetTotalTodayMorning": str(stats.get_today_morning),
        "msgGetTotalTodayNow": str(stats.get_found.total),
    }


def _log(node: BrokerContext) -> dict[str, str]:
    pointers = node.store.pointers
    total, free = node.disk.usage()
    used = str(round((total - free) / total, 4)) if total else "-1"
    return {
        "commitLogMinOffset": str(pointers.start),
        "commitLogMaxOffset": str(pointers.appended),
        "dispatchBehindBytes": str(max(0, pointers.confirmed - pointers.dispatched)),
        "remainHowManyDataToFlush": bytes_text(max(0, pointers.appended - pointers.synced)),
        "earliestMessageTimeStamp": str(node.store.earliest_time()),
        "commitLogDiskRatio": used,
        f"commitLogDiskRatio_{_log_path(node)}": used,
        "consumeQueueDiskRatio": used,
        "commitLogDirCapacity": f"Total : {bytes_text(total)}, Free : {bytes_text(free)}.",
        "epochmqTablesReplaced": str(node.keeper.damaged),
        "storeFenced": node.store.fenced or "",
        "storeDiskFull": str(node.store.disk_full).lower(),
        "epochmqOutOfResources": str(node.store.out_of_resources).lower(),
    }


def _log_path(node: BrokerContext) -> str:
    options = node.options
    return options.store_path_commit_log or f"{options.store_path_root_dir}/commitlog"


def _delays(node: BrokerContext) -> dict[str, str]:
    """Return for each delay level the delivered offset and the end of its queue."""
    return {
        f"scheduleMessageOffset_{level}": (
            f"{offset},{node.store.queue_bounds(names.SCHEDULE_TOPIC, level - 1)[1]}"
        )
        for level, offset in node.schedule.progress().items()
    }


def _timer(node: BrokerContext) -> dict[str, str]:
    """Return how far the timer is behind (seconds, messages), what waits, and rates over 10 s."""
    timer = node.timer
    if timer is None:
        return {}
    driver = timer.driver
    behind_ms = max(0, node.clock.wall_ms() - driver.core.read_ms) if driver.delivers else 0
    return {
        "timerReadBehind": str(behind_ms // 1000),
        "timerOffsetBehind": str(driver.behind()),
        "timerCongestNum": str(driver.metrics.total),
        "timerEnqueueTps": f"{timer.taken.rate(10):.1f}",
        "timerDequeueTps": f"{timer.given.rate(10):.1f}",
    }


def span_text(span_ms: int) -> str:
    """Format a duration in ms as RocketMQ does."""
    days, rest = divmod(span_ms, _DAY_MS)
    hours, rest = divmod(rest, _HOUR_MS)
    minutes, rest = divmod(rest, _MINUTE_MS)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest // _SECOND_MS} seconds ]"


def bytes_text(count: int) -> str:
    """Format a number of bytes with a unit, in powers of 1024."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}iB"


HANDLERS: dict[int, NodeHandler] = {RequestCode.GET_BROKER_RUNTIME_INFO: handle_runtime_info}
