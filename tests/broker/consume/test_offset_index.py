"""The index of the rows of consumer offsets, against a search of all rows."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.consume.offset_index import OffsetIndex

NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["commit", "clone", "drop_topic", "drop_group", "merge", "whole", "delta", "load"]
        ),
        NAMES,
        NAMES,
        st.booleans(),
    ),
    max_size=40,
)


def rows(topic: str, group: str) -> dict[str, object]:
    return {"offsetTable": {f"{topic}@{group}": {0: 1}}}


def take(offsets: ConsumerOffsets, step: str, topic: str, group: str) -> None:
    if step == "commit":
        offsets.commit(group, topic, 0, 1)
    elif step == "clone":
        offsets.clone(group, "a", topic, 1)
    elif step == "drop_topic":
        offsets.drop_topic(topic, 1)
    elif step == "drop_group":
        offsets.drop_group(group, 1)
    elif step == "merge":
        offsets.merge(rows(topic, group), 1)
    elif step == "load":
        offsets.load(rows(topic, group))
    else:
        offsets.adopt(rows(topic, group), whole=step == "whole")


@given(steps=STEPS)
def test_whatever_happens_the_index_has_all_rows(steps: list[tuple[str, str, str, bool]]) -> None:
    offsets = ConsumerOffsets()
    for step, topic, group, asks in steps:
        take(offsets, step, topic, group)
        if asks:
            check(offsets)
    check(offsets)


def check(offsets: ConsumerOffsets) -> None:
    for name in "abc":
        assert offsets.groups_of(name) == {g for t, g in offsets.pairs() if t == name}
        assert offsets.topics_of(name) == {t for t, g in offsets.pairs() if g == name}


def test_nothing_is_kept_of_removed_rows() -> None:
    index = OffsetIndex(["t@g", "t@h"])
    index.remove("t@g")
    index.remove("t@h")
    assert index.groups_of("t") == index.topics_of("g") == set()
