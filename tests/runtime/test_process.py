import json
from typing import Any, cast

from epochmq.runtime.process import handle_process_info, server_process
from epochmq.wire.command import request


async def test_a_server_tells_of_its_loop_and_its_descriptors() -> None:
    with server_process():
        reply = handle_process_info(request(28), cast(Any, None), 0)
    table = json.loads(reply.body)["table"]
    assert {"epochmqLoopTurnMaxMs", "epochmqDescriptors", "epochmqDescriptorsMax"} <= set(table)
    assert all(isinstance(value, str) for value in table.values())
