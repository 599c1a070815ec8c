"""Bytes of half messages, op messages and what is made of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import Refused
from epochmq.broker.transaction import half_messages as module
from epochmq.model import property_names as names
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC
from epochmq.model.properties import decode, encode
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.store.draft import Draft

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
WALL = 1_700_000_000_000


def raw(body: bytes = b"b", topic: str = HALF_TOPIC, at: int = 7, **properties: str) -> bytes:
    return record.encode(
        topic=topic.encode(),
        body=body,
        properties=encode(properties).encode(),
        queue_id=0,
        flag=3,
        queue_offset=at,
        offset=900,
        sys_flag=0,
        born_wall_ms=WALL,
        born_host=HOST,
        store_wall_ms=WALL + 1,
        store_host=HOST,
        reconsume_times=0,
        prepared_offset=0,
    )


def message(**properties: str) -> StoredMessage:
    return record.decode(raw(**properties))


def test_a_half_message_keeps_what_was_sent_and_its_real_place() -> None:
    draft = Draft(
        "T", 3, b"b", encode({"a": "b", "UNIQ_KEY": "K", "DELAY": "3"}).encode(),
        sys_flag=TX_PREPARED | 1,
    )  # fmt: skip
    made = module.prepare(draft, "PG")
    assert (made.topic, made.queue_id, made.sys_flag) == (HALF_TOPIC, 0, 1)
    assert decode(made.properties.decode()) == {
        "a": "b", "UNIQ_KEY": "K", "PGROUP": "PG", "TRAN_MSG": "true", "__transactionId__": "K",
        "REAL_TOPIC": "T", "REAL_QID": "3",
    }  # fmt: skip
    bare = module.prepare(Draft("T", 3, b"b", encode({"PGROUP": "own"}).encode()), "PG")
    assert decode(bare.properties.decode())["PGROUP"] == "own"
    assert names.TRANSACTION_ID not in decode(bare.properties.decode())


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ("UNIQ_KEY", "TRAN_MSG", "PGROUP", "DELAY", "REAL_TOPIC", "__transactionId__", "a")
            ),
            st.sampled_from(("true", "3", "REAL_QID", "")),
        ),
        max_size=7,
    ),
    st.booleans(),
)
def test_the_short_way_says_what_a_dict_would(pairs: list[tuple[str, str]], trailing: bool) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + "\x02" * trailing
    made = module.prepare(Draft("T", 3, b"b", text.encode(), sys_flag=TX_PREPARED), "PG")
    sent = decode(text)
    kept = {k: v for k, v in sent.items() if k not in ("DELAY", "REAL_TOPIC")}
    expected = {"PGROUP": "PG", **kept, "TRAN_MSG": "true", "REAL_TOPIC": "T", "REAL_QID": "3"}
    if sent.get("UNIQ_KEY"):
        expected["__transactionId__"] = sent["UNIQ_KEY"]
    said = decode(made.properties.decode())
    if sent.get("TRAN_MSG") != "true":  # not every other text is one that comes here
        said["TRAN_MSG"] = "true"
    assert said == expected


def test_what_producers_send_goes_the_short_way() -> None:
    sent = {"UNIQ_KEY": "K", "TRAN_MSG": "true", "PGROUP": "own", "WAIT": "true"}
    made = module.prepare(Draft("T", 3, b"b", encode(sent).encode(), 5, ("K",), 1, 5), "PG")
    assert made.properties.startswith(encode(sent).encode())
    assert (made.body, made.tags_code, made.keys, made.flag) == (b"b", 5, ("K",), 1)
    assert module.read_half(record.encode(
        b"T", b"b", made.properties, 0, 0, 1, 2, 0, WALL, HOST, WALL, HOST, 0, 0
    )).group == "own"  # fmt: skip


def test_copies_must_fit_as_well() -> None:
    with pytest.raises(Refused):
        module.prepare(Draft("T", 3, b"b", encode({"a": "b" * 32_600}).encode()), "PG")


@pytest.mark.parametrize(
    ("properties", "origin", "immunity", "checks"),
    [
        ({}, 7, -1, 0),
        ({names.TRAN_PREPARED_QUEUE_OFFSET: "5", names.TRANSACTION_CHECK_TIMES: "2"}, 5, -1, 2),
        ({names.CHECK_IMMUNITY_TIME_IN_SECONDS: "0"}, 7, 0, 0),
        ({names.CHECK_IMMUNITY_TIME_IN_SECONDS: "10"}, 7, 10_000, 0),
        ({names.TRAN_PREPARED_QUEUE_OFFSET: "8"}, 7, -1, 0),
        ({names.TRAN_PREPARED_QUEUE_OFFSET: "-1", names.TRANSACTION_CHECK_TIMES: "x"}, 7, -1, 0),
        ({names.TRAN_PREPARED_QUEUE_OFFSET: "9" * 40}, 7, -1, 0),
        ({names.CHECK_IMMUNITY_TIME_IN_SECONDS: "٣"}, 7, -1, 0),
    ],
)
def test_what_the_core_keeps_of_it(
    properties: dict[str, str], origin: int, immunity: int, checks: int
) -> None:
    found = module.read_half(raw(PGROUP="PG", **properties))
    assert (found.queue_offset, found.offset, found.group) == (7, 900, "PG")
    assert found.born_wall_ms == WALL
    assert (found.origin, found.immunity_ms, found.checks) == (origin, immunity, checks)


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({"REAL_TOPIC": "T", "REAL_QID": "2"}, ("T", 2)),
        ({"REAL_TOPIC": "T"}, ("T", 0)),
        ({"REAL_QID": "2"}, None),
        ({"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "2"}, None),
        ({"REAL_TOPIC": "T", "REAL_QID": "x"}, None),
        ({"REAL_TOPIC": "T", "REAL_QID": "1024"}, None),
    ],
)
def test_where_it_is_for(properties: dict[str, str], place: tuple[str, int] | None) -> None:
    found = message(**properties)
    assert module.real_place(found) == place
    assert (module.real(found) is None) == (place is None)


def test_a_copy_names_the_first_one_and_counts() -> None:
    found = message(REAL_TOPIC="T", REAL_QID="2", PGROUP="PG")
    made = module.copy(found, module.read_half(raw(at=7)), checks=4)
    assert (made.topic, made.queue_id, made.flag, made.born_host) == (HALF_TOPIC, 0, 3, HOST)
    properties = decode(made.properties.decode())
    assert properties[names.TRAN_PREPARED_QUEUE_OFFSET] == "7"
    assert properties[names.TRANSACTION_CHECK_TIMES] == "4"


@pytest.mark.parametrize(
    ("body", "tags", "offsets"),
    [
        (b"1,2,33,", "d", [1, 2, 33]),
        (b"7", "d", [7]),  # as 5.0 writes it
        (b"", "d", []),
        (b"1,x,-2,3", "d", [1, 3]),
        (b"9" * 30, "d", []),
        (b"1,", "other", []),
    ],
)
def test_op_messages_of_all_releases_are_read(body: bytes, tags: str, offsets: list[int]) -> None:
    assert module.op_offsets(raw(body, TAGS=tags)) == offsets


def test_an_op_message_is_as_5_3_writes_it() -> None:
    made = module.op([1, 20], WALL, HOST)
    assert made.body == b"1,20,"
    assert made.properties == b"TAGS\x01d"
    assert made.tags_code == 100  # Java's hash of "d"


def test_copies_have_one_identity_and_no_two_transactions_have() -> None:
    sent = {names.UNIQ_KEY: "K", names.PGROUP: "G"}
    plain = raw(**sent)
    copied = raw(
        at=9, **sent, TRAN_PREPARED_QUEUE_OFFSET="7", TRANSACTION_CHECK_TIMES="1", REAL_TOPIC="T"
    )
    assert module.identity(plain) == module.identity(copied)
    others = [raw(b"c", **sent), raw(**sent | {names.PGROUP: "H"}), raw(UNIQ_KEY="K"), raw()]
    born = bytearray(plain)
    born[record.BORN_TIME_AT + 7] ^= 1
    found = [module.identity(one) for one in (plain, bytes(born), *others)]
    assert len({*found}) == len(found)
    assert all(len(name) == 16 for name in found)
