"""The offline check finds what it must and praises what is sound."""

from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.store.draft import Draft
from epochmq.store.store import Store
from epochmq.store.verify import PROBLEMS_MAX, Verified, verify_directory

UNITS = "consumequeue/T/0/" + "0" * 20


def stopped() -> SimDisk:
    disk = SimDisk()
    store = Store.open(disk, SMALL, HOST, 1)
    for number in range(50):
        draft = Draft(
            "T",
            number % 2,
            b"%d" % number * 50,
            b"KEYS\x01k%d\x02" % number,
            0,
            (f"k{number}",),
            born_host=HOST,
        )
        store.append([draft], 1000 + number)
    store.close(2000)
    return disk


def test_a_sound_store() -> None:
    disk = stopped()
    told: list[tuple[int, int]] = []
    found = verify_directory(disk, SMALL, lambda done, whole: told.append((done, whole)))
    assert found.problems == []
    assert (found.records, found.queues, found.units, found.index_items) == (50, 2, 50, 50)
    assert found.clean_stop
    Store.open(disk, SMALL, HOST, 1)  # the lock was given back


def test_a_changed_unit() -> None:
    disk = stopped()
    disk.open(UNITS).write(20 * 3 + 7, b"\xff")
    assert verify_directory(disk, SMALL).problems == ["T/0: unit 3 differs from its record"]


def test_a_short_and_a_foreign_queue() -> None:
    disk = stopped()
    disk.open("consumequeue/T/1/" + "200".zfill(20)).write(0, bytes(200))
    disk.open("consumequeue/T/1/" + "400".zfill(20)).write(0, bytes(200))
    disk.open("consumequeue/X/0/" + "0" * 20, create_size=200).write(0, (1 << 40).to_bytes(20))
    problems = verify_directory(disk, SMALL).problems
    assert "T/1: ends at 10, the log says 25" in problems
    assert len(problems) == 1 or "X/0: the log has no record of it" in problems


def test_a_changed_index() -> None:
    disk = stopped()
    name = disk.list("index")[0]
    disk.open(f"index/{name}").write(40 + 16 * 4 + 20 * 2, b"\x01")
    before = disk.contents()
    (problem,) = verify_directory(disk, SMALL).problems
    assert problem == f"index: index/{name} is damaged; the next start builds it again from the log"
    assert disk.contents() == before
    disk.remove("indexChecksums")  # as an older version leaves it
    assert "index: 50 items" in verify_directory(disk, SMALL).problems[0]


def test_damage_in_the_log_is_named() -> None:
    disk = stopped()
    disk.open("commitlog/" + "0" * 20).write(100, b"\xff")
    before = disk.contents()
    found = verify_directory(disk, SMALL)
    assert (found.records, found.log_end, found.end_reason) == (0, 0, "body checksum is wrong")
    assert found.log_damaged
    (problem,) = found.problems
    assert problem.startswith("the log is damaged: commitlog/" + "0" * 20 + " bytes 0 to ")
    assert disk.contents() == before


def test_damage_in_properties_is_the_logs_fault_not_the_indexs() -> None:
    """The keys differ then, too, and making the index again would hide it."""
    disk = stopped()
    log = disk.contents()["commitlog/" + "0" * 20]
    disk.open("commitlog/" + "0" * 20).write(log.index(b"KEYS"), b"\x01" * 20)
    (problem,) = verify_directory(disk, SMALL).problems
    assert problem.startswith("the log is damaged: ")


def test_files_of_another_size_are_a_problem_not_an_error() -> None:
    disk = stopped()
    disk.open("commitlog/" + "0" * 20).truncate(5)
    assert "mappedFileSizeCommitLog" in verify_directory(disk, SMALL).problems[0]


def test_a_crashed_store_says_so() -> None:
    disk = SimDisk()
    Store.open(disk, SMALL, HOST, 1)
    found = verify_directory(disk.kill(), SMALL)
    assert (found.clean_stop, len(found.problems)) == (False, 1)


def test_problems_are_bounded() -> None:
    found = Verified()
    for number in range(PROBLEMS_MAX * 2):
        found.report(str(number))
    assert len(found.problems) == PROBLEMS_MAX
