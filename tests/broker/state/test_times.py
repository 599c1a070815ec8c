"""How long it took to store messages, as RocketMQ's tools read it."""

from epochmq.broker.state.broker_stats import BOUNDS_MS, NAMES, PutTimes


def parsed(text: str) -> dict[str, int]:
    """As apache/rocketmq-exporter does: split by spaces, then by colons."""
    pairs = (part.split(":") for part in text.split(" "))
    return {name.replace("[", "").replace("]", ""): int(count) for name, count in pairs}


def test_each_time_has_its_class() -> None:
    times = PutTimes()
    for number, (low, high) in enumerate(zip((-1, *BOUNDS_MS), (*BOUNDS_MS, 1 << 40), strict=True)):
        times.add(low + 1, 1)
        times.add(high, 10)
        assert list(parsed(times.text()).values())[number] == 11
    assert list(parsed(times.text())) == list(NAMES)
    assert times.longest_ms == 1 << 40


def test_messages_of_one_append_count_each() -> None:
    times = PutTimes()
    times.add(0, 300)
    times.add(7, 20)
    counts = parsed(times.text())
    assert (counts["<=0ms"], counts["0~10ms"], sum(counts.values())) == (300, 20, 320)
    assert times.longest_ms == 7
