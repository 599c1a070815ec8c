"""Copies of messages that failed."""

from tests.client.aio.test_subscribing import message

from epochmq.client.core.retrying import retry_of, send_request
from epochmq.model.group import RETRIES_UNLIMITED, is_tried_out
from epochmq.model.properties import decode
from epochmq.model.sys_flag import COMPRESSED, TX_PREPARED
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import SendHeaderV2


def test_a_retry_comes_later_each_time_and_knows_where_it_is_from() -> None:
    failed = message("A")
    failed.reconsume_times, failed.sys_flag, failed.flag = 2, COMPRESSED | TX_PREPARED, 7
    copy = retry_of(failed, "g", 0, 16)
    assert (copy.topic, copy.body, copy.flag) == ("%RETRY%g", failed.body, 7)
    assert (copy.reconsume_times, copy.max_reconsume_times, copy.sys_flag) == (3, 16, COMPRESSED)
    properties = decode(copy.properties)
    assert properties["RETRY_TOPIC"] == failed.topic
    assert properties["ORIGIN_MESSAGE_ID"] == failed.offset_msg_id
    assert properties["TAGS"] == "A"
    assert (properties["DELAY"], properties["RECONSUME_TIME"]) == ("5", "3")
    assert decode(retry_of(failed, "g", 9, 16).properties)["DELAY"] == "9"


def test_a_retry_that_fails_again_keeps_its_first_topic() -> None:
    failed = message("A")
    failed.properties |= {"RETRY_TOPIC": "first", "ORIGIN_MESSAGE_ID": "id"}
    properties = decode(retry_of(failed, "g", 0, 16).properties)
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("first", "id")


def test_a_dead_letter_is_one_tried_too_often() -> None:
    copy = retry_of(message("A"), "g", -1, 3)
    assert (copy.reconsume_times, copy.max_reconsume_times) == (4, 3)
    assert "DELAY" not in decode(copy.properties)


def test_the_request() -> None:
    command = send_request(retry_of(message("A"), "g", 0, 16), 99)
    header = decode_header(SendHeaderV2, command.ext)
    assert (header.topic, header.queueId, header.bornTimestamp) == ("%RETRY%g", -1, 99)
    assert (header.reconsumeTimes, header.maxReconsumeTimes, header.batch) == (1, 16, False)


def test_a_dead_letter_of_a_consumer_without_a_limit_is_one_for_brokers() -> None:
    copy = retry_of(message("A"), "g", -1, RETRIES_UNLIMITED)
    assert copy.reconsume_times == RETRIES_UNLIMITED  # a larger number is none on the wire
    assert copy.max_reconsume_times is not None
    assert is_tried_out(copy.reconsume_times - 1, copy.max_reconsume_times)
