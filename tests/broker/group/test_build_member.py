"""What a start finds: whose replica this is, and whether it may have lost something."""

from types import SimpleNamespace
from typing import cast

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.broker.group.broker_identity import IdentityFiles
from epochmq.broker.group.build_member import note_start, started_clean
from epochmq.store.log_end import CutTail
from epochmq.store.store import Store


def store(*, clean: bool, lost: int = 0, cut: int = 0, damages: int = 0) -> Store:
    recovered = SimpleNamespace(
        clean=clean, lost_confirmed=lost, cut=CutTail(size=cut), damages=[object()] * damages
    )
    return cast(Store, SimpleNamespace(recovered=recovered))


@pytest.mark.parametrize(
    ("clean", "sync_flush", "same_boot", "wanted"),
    [
        (True, False, False, True),
        (False, False, False, False),
        (False, True, False, True),
        (False, False, True, True),
    ],
)
def test_only_a_crash_of_the_machine_loses_what_was_written(
    clean: bool, sync_flush: bool, same_boot: bool, wanted: bool
) -> None:
    """KIP-966, S10; a killed process leaves the page cache alone."""
    found = started_clean(store(clean=clean), sync_flush=sync_flush, same_boot=same_boot)
    assert found is wanted


def test_a_log_that_ends_below_what_was_confirmed_lost_something_whatever_else_holds() -> None:
    assert not started_clean(store(clean=True, lost=1), sync_flush=True, same_boot=True)


def test_what_was_cut_off_may_have_been_acknowledged() -> None:
    """S11: a flipped bit ends the log where it is found."""
    assert not started_clean(store(clean=True, cut=90), sync_flush=True, same_boot=True)
    assert not started_clean(store(clean=False, damages=1), sync_flush=True, same_boot=True)


@pytest.mark.parametrize("sync_flush", [False, True])
def test_an_unclean_start_is_remembered_until_the_controllers_know(sync_flush: bool) -> None:
    """S50: recovery has cut what was lost, so the starts that follow find nothing."""
    files = IdentityFiles(FakeDisk(), "", "C", "b")
    files.save_boot("one")
    assert not note_start(files, store(clean=False, cut=90), "two", sync_flush=sync_flush)
    assert not note_start(files, store(clean=False), "two", sync_flush=sync_flush)
    assert not note_start(files, store(clean=True), "two", sync_flush=sync_flush)
    files.save_boot("two")  # they know
    assert note_start(files, store(clean=False), "two", sync_flush=sync_flush)
    assert files.last_boot() == "two"


def test_a_system_that_does_not_name_its_boots_is_no_same_boot() -> None:
    files = IdentityFiles(FakeDisk(), "", "C", "b")
    assert note_start(files, store(clean=True), "", sync_flush=False)
    assert not note_start(files, store(clean=False), "", sync_flush=False)
