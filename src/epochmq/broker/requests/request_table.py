"""Table of all request handlers except send and pull, which the dispatcher calls itself."""

from epochmq.broker.produce.send_back import read_message
from epochmq.broker.requests import (
    assignment_handlers,
    auth_handlers,
    bulk_read,
    client_handlers,
    config_handlers,
    consume_handlers,
    end_transaction,
    group_handlers,
    lock_handlers,
    log_handlers,
    offset_handlers,
    pop_ack,
    pop_ask,
    pop_orders,
    query_handlers,
    replica_handlers,
    requests_to_clients,
    runtime_info,
    timer_handlers,
    topic_handlers,
)
from epochmq.broker.requests.cold_requests import MessageReads
from epochmq.broker.requests.common import NodeHandler
from epochmq.wire.codes import RequestCode

REQUEST_TABLE: dict[int, NodeHandler] = {
    **assignment_handlers.HANDLERS,
    **auth_handlers.HANDLERS,
    **bulk_read.HANDLERS,
    **client_handlers.HANDLERS,
    **config_handlers.HANDLERS,
    **consume_handlers.HANDLERS,
    **end_transaction.HANDLERS,
    **group_handlers.HANDLERS,
    **lock_handlers.HANDLERS,
    **log_handlers.HANDLERS,
    **offset_handlers.HANDLERS,
    **pop_ack.HANDLERS,
    **pop_ask.HANDLERS,
    **pop_orders.HANDLERS,
    **query_handlers.HANDLERS,
    **replica_handlers.HANDLERS,
    **requests_to_clients.HANDLERS,
    **runtime_info.HANDLERS,
    **timer_handlers.HANDLERS,
    **topic_handlers.HANDLERS,
}

READS_FIRST: dict[int, MessageReads] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: read_message,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: offset_handlers.read_wanted_offsets,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: requests_to_clients.read_message_to_consume,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: end_transaction.read_given_up,
}
"""What requests read before they change something (`cold_requests.after_reading`)."""
