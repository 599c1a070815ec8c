"""Reserved property names."""

from epochmq.model import property_names


def test_names_that_differ_from_their_constant_are_spelled_as_on_the_wire() -> None:
    assert property_names.FIRST_POP_TIME == "1ST_POP_TIME"
    assert property_names.TRANSACTION_ID == "__transactionId__"
    assert property_names.SHARDING_KEY == "__SHARDINGKEY"
    assert property_names.BORN_HOST == "__BORNHOST"
    assert property_names.FORWARD_QUEUE_ID == "PROPERTY_FORWARD_QUEUE_ID"


def test_every_name_is_reserved_and_no_separator_or_prefix_is() -> None:
    assert {"KEYS", "TAGS", "UNIQ_KEY", "POP_CK", "__CRC32#"} <= property_names.RESERVED
    assert " " not in property_names.RESERVED
    assert property_names.TRANSIENT_PREFIX not in property_names.RESERVED
