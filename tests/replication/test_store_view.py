"""What the cores are told of a store."""

from dataclasses import replace

from epochmq.replication.replication_ports import StoreView

from .pair import SYNC, Broker


def test_without_sync_flush_what_is_written_is_safe() -> None:
    broker = Broker(1)
    broker.lead(1)
    broker.write(3)
    view = StoreView(broker.store)
    assert view.safe == view.end == view.whole == broker.end > 0
    assert (view.start, view.file_bytes) == (0, broker.store_options.commit_log_file_bytes)


def test_with_sync_flush_what_is_on_the_device_is_safe() -> None:
    broker = Broker(1, store_options=replace(SYNC))
    broker.lead(1)
    broker.write(3)
    view = StoreView(broker.store)
    assert view.safe < view.end
    broker.store.sync()
    assert view.safe == view.end
