"""A draft as it is sent: kept delays off, a mark on, to a queue that the master chooses."""

from epochmq.base.limits import PROPERTIES_BYTES_MAX
from epochmq.broker.escape.forward_batch import (
    ANY_QUEUE,
    ForwardedMessage,
    Where,
    forward_request,
    here,
    item_of,
    level_to_wait,
)
from epochmq.model.group import RETRIES_UNLIMITED
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from epochmq.model.properties import decode, encode
from epochmq.model.revive_routing import pinned, place_of
from epochmq.model.sink_mark import ESCAPE_ID
from epochmq.model.sys_flag import BORN_V6, COMPRESSED, INNER_BATCH, TX_COMMIT
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode

REVIVE = "rmq_sys_REVIVE_LOG_c"


def draft(topic: str = "T", queue_id: int = 3, *, sys_flag: int = 0, **properties: str) -> Draft:
    raw = encode(properties).encode()
    return Draft(topic, queue_id, b"body", raw, sys_flag=sys_flag, reconsume_times=2, flag=7,
                 born_wall_ms=99)  # fmt: skip


def item(found: Draft) -> ForwardedMessage:
    made = item_of(found, "a")
    assert made is not None
    return made


def sent(found: Draft) -> tuple[dict[str, str], dict[str, str]]:
    """(header, properties)."""
    command = forward_request(item(found), "IG")
    assert command.code == RequestCode.SEND_MESSAGE_V2
    assert bytes(command.body) == b"body"
    assert command.ext is not None
    return dict(command.ext), decode(command.ext["i"])


def test_what_was_delayed_is_not_delayed_again() -> None:
    waited = {"DELAY": "3", "TIMER_DELAY_SEC": "5", "TIMER_DELIVER_MS": "9", "TIMER_DELAY_MS": "9"}
    header, properties = sent(draft(WAIT="false", TAGS="a", REAL_TOPIC="T", **waited))
    mark = properties.pop(ESCAPE_ID)
    assert mark.startswith("a@")
    assert properties == {"WAIT": "true", "TAGS": "a", "REAL_TOPIC": "T"}
    assert header["b"] == "T"
    assert header["e"] == str(ANY_QUEUE)
    assert (header["a"], header["c"], header["d"]) == ("IG", "TBW102", "8")
    assert (header["g"], header["h"], header["j"]) == ("99", "7", "2")
    assert header["l"] == str(RETRIES_UNLIMITED)


def test_what_a_consumer_sent_back_waits_where_it_goes() -> None:
    _, properties = sent(draft("%RETRY%G", DELAY="3", RETRY_TOPIC="T"))
    assert properties["DELAY"] == "3"
    for odd in ({"DELAY": "x"}, {"DELAY": "3", "REAL_TOPIC": "%RETRY%G"}, {}):
        assert level_to_wait(draft("%RETRY%G", **odd)) == 0
    assert level_to_wait(draft("T", DELAY="3")) == 0


def test_the_producers_group_stays() -> None:
    header, _ = sent(draft(PGROUP="PG"))
    assert header["a"] == "PG"


def test_bits_of_the_hosts_are_the_receivers_own() -> None:
    header, _ = sent(draft(sys_flag=BORN_V6 | COMPRESSED | TX_COMMIT))
    assert header["f"] == str(COMPRESSED | TX_COMMIT)


def test_a_rolled_one_goes_on_waiting_in_the_timer_topic() -> None:
    header, properties = sent(draft(TIMER_TOPIC, TIMER_DELIVER_MS="9", TIMER_OUT_MS="8"))
    assert properties["TIMER_DELIVER_MS"] == "9"
    assert header["e"] == "0"
    assert item(draft(TIMER_TOPIC)).where is Where.ONE


def test_a_check_point_goes_to_the_queue_that_its_number_names() -> None:
    pin = pinned(place_of("z"), 5)
    made = draft(REVIVE, pin, TIMER_DELIVER_MS="9")
    assert item(made).where is Where.PINNED
    assert item(made).place == place_of("z")
    header, properties = sent(made)
    assert header["e"] == "5"
    assert ESCAPE_ID not in properties
    assert properties["TIMER_DELIVER_MS"] == "9"
    assert here(made).queue_id == 5
    plain = draft()
    assert here(plain) is plain


def test_retries_go_anywhere() -> None:
    assert item(draft("%RETRY%G")).where is Where.ANY
    assert item(draft("%DLQ%G")).where is Where.ANY


def test_what_belongs_in_the_own_log_goes_nowhere() -> None:
    for topic in (HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, REVIVE):
        assert item_of(draft(topic), "a") is None
    assert item_of(draft(sys_flag=INNER_BATCH), "a") is None


def test_one_message_has_one_name_whenever_it_is_handed_over() -> None:
    one = item(draft(UNIQ_KEY="k", TIMER_DEQUEUE_MS="5", TIMER_ENQUEUE_MS="4", WAIT="false")).name
    assert item(draft(UNIQ_KEY="k", TIMER_DEQUEUE_MS="9")).name == one
    others = [draft(UNIQ_KEY="l"), draft(UNIQ_KEY="k", TAGS="a"), draft("U", UNIQ_KEY="k")]
    tried = draft(UNIQ_KEY="k")
    tried.reconsume_times += 1
    born = draft(UNIQ_KEY="k")
    born.born_wall_ms += 1
    said = draft(UNIQ_KEY="k")
    said.body = b"other"
    names = {item(other).name for other in (*others, tried, born, said)}
    assert len(names) == 6
    assert one not in names
    other_group = item_of(draft(UNIQ_KEY="k"), "b")
    assert other_group is not None
    assert other_group.name != one


def test_properties_without_room_go_without_a_mark() -> None:
    _, properties = sent(draft(long="x" * (PROPERTIES_BYTES_MAX - 100)))
    assert ESCAPE_ID not in properties
