from dataclasses import replace

from tests.replication.world import FakeLog, log

from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_frames import encode_head, encode_report
from epochmq.replication.plain.plain_master import PlainMasterCore
from epochmq.replication.replication_effects import Close, SendData, Trouble

OPTIONS = ReplicationOptions(in_sync_replicas=2, transfer_batch_bytes=300)


def master(
    held: FakeLog, options: ReplicationOptions = OPTIONS, sync: bool = True
) -> PlainMasterCore:
    return PlainMasterCore(held, options, sync=sync)


def slave(core: PlainMasterCore, link: int, end: int) -> None:
    assert core.accepted(link, f"slave {link}", 0) == []
    assert core.received(link, encode_report(end), 0) == []


def chunks(core: PlainMasterCore, link: int, now: int = 0) -> list[tuple[int, int]]:
    found = []
    while (chunk := core.next_chunk(link, now)) is not None:
        assert chunk.head == encode_head(chunk.offset, chunk.size)
        found.append((chunk.offset, chunk.size))
    return found


def test_nothing_is_sent_before_the_first_report() -> None:
    core = master(log(500))
    core.accepted(1, "slave", 0)
    assert core.next_chunk(1, 0) is None
    assert core.tick(10_000) == []


def test_a_slave_goes_on_where_its_log_ends_and_no_chunk_crosses_a_file() -> None:
    core = master(log(1500))
    slave(core, 1, 900)
    assert chunks(core, 1) == [(900, 100), (1000, 300), (1300, 200)]


def test_a_slave_without_a_log_begins_with_the_last_file() -> None:
    core = master(log(2500))
    slave(core, 1, 0)
    assert chunks(core, 1)[0] == (2000, 300)


def test_what_is_deleted_is_not_sent() -> None:
    core = master(log(2500, start=1000))
    slave(core, 1, 500)
    assert chunks(core, 1) == []


def test_sync_master_waits_for_one_slave() -> None:
    held = log(500)
    core = master(held)
    slave(core, 1, 500)
    told: list[AckStatus] = []
    held.end = held.safe = 600
    core.appended(0)
    core.when_acked(600, 3000, told.append)
    assert told == []
    core.received(1, encode_report(599) + encode_report(600), 0)
    assert told == [AckStatus.ACKED]
    core.when_acked(600, 3000, told.append)
    assert told[1:] == [AckStatus.ACKED]
    held.end = held.safe = 700
    core.appended(0)
    core.when_acked(700, 3000, told.append)
    core.when_acked(600, 3000, told.append)  # asked again, not behind those who wait for more
    assert told[2:] == [AckStatus.ACKED]


def test_async_master_and_one_replica_wait_for_nobody() -> None:
    for core in (
        master(log(500), sync=False),
        master(log(500), replace(OPTIONS, in_sync_replicas=1)),
    ):
        told: list[AckStatus] = []
        core.when_acked(500, 3000, told.append)
        assert told == [AckStatus.ACKED]


def test_without_slaves_a_send_times_out() -> None:
    core = master(log(500))
    told: list[AckStatus] = []
    core.when_acked(500, 3000, told.append)
    core.tick(2999)
    assert told == []
    core.tick(3000)
    assert told == [AckStatus.TIMEOUT]
    assert core.refusal(0) is None  # upstream looks at no minimum here


def test_what_is_needed_adapts_to_the_slaves_that_are_near() -> None:
    options = replace(OPTIONS, auto_in_sync_replicas=True, in_sync_replicas=3, gap_max_bytes=100)
    core = master(log(500), options)
    slave(core, 1, 450)
    slave(core, 2, 100)
    assert core.position == 450
    assert core.refusal(0) is None
    lone = master(log(500), replace(options, min_in_sync_replicas=2))
    assert lone.refusal(0) is AckStatus.NOT_ENOUGH
    slave(lone, 1, 450)
    assert lone.refusal(0) is None


def test_waiting_sends_are_acknowledged_when_fewer_replicas_are_required() -> None:
    core = master(log(500))
    told: list[AckStatus] = []
    core.when_acked(500, 3000, told.append)
    core.change_options(replace(OPTIONS, in_sync_replicas=1))
    assert told == [AckStatus.ACKED]
    core.change_options(OPTIONS)
    core.when_acked(500, 3000, told.append)
    assert told == [AckStatus.ACKED]


def test_impossible_reports_cut_the_link() -> None:
    """S08. On the first report this master's log is the shorter one, which a person must know."""
    core = master(log(500))
    slave(core, 1, 500)
    assert core.received(1, encode_report(501), 0) == [
        Close(1, "a slave reported 501, the log ends at 500")
    ]
    core.accepted(2, "slave 2", 0)
    effects = core.received(2, encode_report(501), 0)
    assert isinstance(effects[1], Trouble)
    assert core.bad_acks == 2
    assert core.links == {}
    assert core.received(2, encode_report(1), 0) == []


def test_heartbeats_and_silence() -> None:
    core = master(log(500))
    slave(core, 1, 500)
    assert core.tick(4999) == []
    assert core.tick(5000) == [SendData(1, encode_head(500, 0))]
    assert core.tick(9999) == []
    assert core.tick(20_000) == [Close(1, "silent for too long")]
    assert core.closed(1, 20_000) == []


def test_the_flow_is_bounded() -> None:
    core = master(log(900), replace(OPTIONS, flow_control=True, flow_bytes_per_second=350))
    slave(core, 1, 100)
    assert chunks(core, 1, now=5000) == [(100, 300), (400, 50)]
    assert chunks(core, 1, now=6000) == [(450, 300), (750, 50)]


def test_a_fence() -> None:
    core = master(log(500))
    told: list[AckStatus] = []
    core.when_acked(500, 3000, told.append)
    core.fence("stop")
    core.when_acked(500, 3000, told.append)
    assert told == [AckStatus.FENCED] * 2
    assert core.refusal(0) is AckStatus.FENCED
    assert core.statistics()["waiting"] == 0


def test_no_more_count_than_are_alive() -> None:
    """Links of slaves that name servers have given up do not."""
    core = master(log(500))
    core.alive = 2
    assert core.refusal(0) is AckStatus.NOT_ENOUGH  # without a slave
    slave(core, 1, 500)
    assert core.refusal(0) is None
    core.alive = 1
    assert core.refusal(0) is AckStatus.NOT_ENOUGH
    core.alive = 0  # name servers that forgot this one too
    assert core.refusal(0) is AckStatus.NOT_ENOUGH
    lone = master(log(500), replace(OPTIONS, in_sync_replicas=1))
    lone.alive = 0
    assert lone.refusal(0) is None


def test_what_is_needed_adapts_to_the_living() -> None:
    options = replace(OPTIONS, auto_in_sync_replicas=True)
    held = log(500)
    core = master(held, options)
    core.alive = 2
    assert core.refusal(0) is None
    assert core.position == 500  # alone, it waits for nobody
    slave(core, 1, 500)
    held.end = held.safe = 600
    core.appended(0)
    assert core.position == 500
    core.alive = 1
    assert core.position == 600
    least = master(held, replace(options, min_in_sync_replicas=2))
    least.alive = 1
    slave(least, 1, 600)
    assert least.refusal(0) is AckStatus.NOT_ENOUGH
