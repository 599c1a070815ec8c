"""`Admin`: every call that the command line and tests make to brokers and name servers."""

from epochmq.client.aio.admin_cluster import ClusterCalls
from epochmq.client.aio.admin_controllers import ControllerCalls
from epochmq.client.aio.admin_messages import MessageCalls


class Admin(ClusterCalls, ControllerCalls, MessageCalls):
    """Use as `async with Admin("127.0.0.1:9876") as admin: ...`.

    Works against RocketMQ's brokers and name servers as well. Raises `NotReachable` without an
    answer, `NotFound` for topics, groups, clusters and messages that are not there, and `Refused`
    with the peer's code and remark for everything else.
    """
