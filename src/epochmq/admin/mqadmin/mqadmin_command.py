"""The command group `epochmq mqadmin`: the names of its commands and their modules."""

from importlib import import_module

import click

from epochmq.admin.mqadmin.absent_commands import ABSENT
from epochmq.admin.mqadmin.running import output_for_all
from epochmq.admin.shared.exits import LazyGroup
from epochmq.base.errors import UsageError

_HERE = "epochmq.admin.mqadmin."
COMMANDS = {
    "clusterList": ("mqadmin_cluster", "Brokers with their rates, or with their totals (-m)."),
    "brokerStatus": ("mqadmin_broker", "All figures of a broker, or of a cluster's brokers."),
    "getBrokerConfig": ("mqadmin_broker", "The options of a broker, or of a cluster's brokers."),
    "updateBrokerConfig": ("mqadmin_broker", "Change an option of running brokers."),
    "deleteExpiredCommitLog": ("mqadmin_broker", "Delete log files past their time now."),
    "addBroker": ("mqadmin_container", "Let a container start one more broker."),
    "removeBroker": ("mqadmin_container", "Let a container stop one of its brokers."),
    "wipeWritePerm": (
        "mqadmin_namesrv",
        "Take a broker's topics from producers, on all name servers.",
    ),
    "addWritePerm": ("mqadmin_namesrv", "Give a broker's topics back to producers."),
    "getNamesrvConfig": ("mqadmin_namesrv", "The options of all name servers."),
    "updateNamesrvConfig": ("mqadmin_namesrv", "Change an option of all name servers."),
    "updateKvConfig": ("mqadmin_namesrv", "Set a key of a namespace on all name servers."),
    "deleteKvConfig": ("mqadmin_namesrv", "Delete a key of a namespace on all name servers."),
    "getControllerMetaData": ("mqadmin_controller", "Who leads the controllers."),
    "getSyncStateSet": (
        "mqadmin_controller",
        "Master, epochs and replicas in sync of broker groups.",
    ),
    "getBrokerEpoch": ("mqadmin_replicas", "The epochs of each broker's log."),
    "haStatus": ("mqadmin_replicas", "Who copies a master's log, or what a slave copies."),
    "getBrokerHAStatus": ("mqadmin_replicas", "The same, by the name of the request."),
    "resetMasterFlushOffset": ("mqadmin_replicas", "Set what a slave shows of its master's log."),
    "electMaster": ("mqadmin_controller", "Make a replica of a group its master."),
    "getControllerConfig": ("mqadmin_controller", "The options of controllers."),
    "updateControllerConfig": ("mqadmin_controller", "Change an option of running controllers."),
    "cleanBrokerMetadata": ("mqadmin_controller", "Make the controllers forget replicas."),
    "topicList": ("mqadmin_topics", "Names of all topics, or with their groups (-c)."),
    "topicRoute": ("mqadmin_topics", "Which brokers have queues of a topic."),
    "topicStatus": ("mqadmin_topics", "First and last offset of each queue of a topic."),
    "topicClusterList": ("mqadmin_topics", "Which clusters have a topic."),
    "allocateMQ": ("mqadmin_topics", "Which queues members would get."),
    "updateTopic": ("mqadmin_topic_changes", "Create or change a topic."),
    "updateTopicList": ("mqadmin_topic_changes", "Create or change the topics of a file."),
    "updateTopicPerm": ("mqadmin_topic_changes", "Change whether a topic is written and read."),
    "updateOrderConf": ("mqadmin_topic_changes", "The order configuration of a topic."),
    "deleteTopic": ("mqadmin_topic_changes", "Delete a topic with its messages."),
    "updateSubGroup": ("mqadmin_group_changes", "Create or change a consumer group."),
    "updateSubGroupList": ("mqadmin_group_changes", "Create or change the groups of a file."),
    "getConsumerConfig": ("mqadmin_group_changes", "The configuration of a group."),
    "cloneGroupOffset": ("mqadmin_group_changes", "Copy the offsets of a group to another."),
    "deleteSubGroup": ("mqadmin_group_changes", "Delete a consumer group."),
    "setConsumeMode": ("consume_mode", "Say whether a group pulls a topic, or pops it."),
    "consumerProgress": ("consumer_progress", "How far a group is, or all groups are."),
    "resetOffsetByTime": ("mqadmin_reset", "Move a group to where messages of a time begin."),
    "skipAccumulatedMessage": ("mqadmin_reset", "Move a group to the end of a topic."),
    "consumerConnection": ("connections", "Members of a consumer group and what they want."),
    "producerConnection": ("connections", "Producers of a group."),
    "producer": ("connections", "All producers that are connected to a broker."),
    "consumerStatus": ("consumer_status", "What the members of a group report of themselves."),
    "brokerConsumeStats": ("mqadmin_stats", "How far every group is in a broker's queues."),
    "statsAll": ("mqadmin_stats", "Rates and numbers of messages of topics and their groups."),
    "queryMsgById": ("queries", "A message by either of its ids."),
    "queryMsgByKey": ("queries", "Ids of messages with a key."),
    "queryMsgByUniqueKey": ("queries", "Messages by the id that their producer gave."),
    "queryMsgByOffset": ("queries", "The message at an offset of a queue."),
    "queryMsgTraceById": ("mqadmin_trace", "Who sent a message, and which groups consumed it."),
    "sendMessage": ("transfer", "Send one message."),
    "consumeMessage": ("transfer", "Print messages of a topic."),
    "printMsg": ("print_messages", "Print the messages of all queues of a topic."),
    "printMsgByQueue": ("print_messages", "Print the messages of one queue, or count tags."),
    "queryCq": ("mqadmin_stats", "Units of a consume queue."),
    "sendMsgStatus": ("send_times", "Send to a broker's own topic and print each result."),
    "checkMsgSendRT": ("send_times", "Send to a topic and print how long each send took."),
    "clusterRT": ("send_times", "How long sends to each broker take, again and again."),
    "exportConfigs": ("mqadmin_exports", "Write important options of brokers to a file."),
    "exportMetadata": ("mqadmin_exports", "Write topics and groups to a file."),
    "exportMetrics": ("mqadmin_exports", "Write rates and sizes of brokers to a file."),
    "createUser": ("mqadmin_auth", "Create a user."),
    "updateUser": ("mqadmin_auth", "Change password, type or status of a user."),
    "deleteUser": ("mqadmin_auth", "Delete a user and its policies."),
    "getUser": ("mqadmin_auth", "One user."),
    "listUser": ("mqadmin_auth", "All users."),
    "createAcl": ("mqadmin_auth", "Add entries to the policy of a user."),
    "updateAcl": ("mqadmin_auth", "Change entries of the policy of a user."),
    "deleteAcl": ("mqadmin_auth", "Delete an entry, or all policies of a user."),
    "getAcl": ("mqadmin_auth", "The policies of one user."),
    "listAcl": ("mqadmin_auth", "The policies of all users."),
    "copyUser": ("mqadmin_auth", "Copy users to another broker."),
    "copyAcl": ("mqadmin_auth", "Copy policies to another broker."),
}
_MODULES = {
    "Cluster": (
        "mqadmin_cluster",
        "mqadmin_broker",
        "mqadmin_container",
        "mqadmin_namesrv",
        "mqadmin_exports",
    ),
    "Controllers and replicas": ("mqadmin_controller", "mqadmin_replicas"),
    "Topics": ("mqadmin_topics", "mqadmin_topic_changes"),
    "Consumer groups": (
        "mqadmin_group_changes",
        "consume_mode",
        "consumer_progress",
        "mqadmin_reset",
        "connections",
        "consumer_status",
    ),
    "Messages": (
        "queries",
        "mqadmin_trace",
        "transfer",
        "print_messages",
        "mqadmin_stats",
        "send_times",
    ),
    "Users and policies": ("mqadmin_auth",),
}
_ELSEWHERE = {"brokerConsumeStats": "Consumer groups", "statsAll": "Topics"}
"""Commands that stand below another title than those of their module."""
_TITLES = {module: title for title, modules in _MODULES.items() for module in modules}
SECTIONS = {
    title: tuple(
        name
        for name, (module, _) in COMMANDS.items()
        if _ELSEWHERE.get(name, _TITLES[module]) == title
    )
    for title in _MODULES
}


class MqAdminGroup(LazyGroup):
    """Finds commands without regard to case, as RocketMQ's tool does; supports `help NAME`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = {name.lower(): name for name in self.table}.get(cmd_name.lower())
        if found is None:
            return None
        command = import_module(_HERE + self.table[found][0]).COMMANDS[found]
        assert isinstance(command, click.Command), found
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].lower() == "help":
            args = [*args[1:2], "--help"]
        command = self.get_command(ctx, args[0])
        if command is not None:
            return command.name, command, args[1:]
        if args[0] == "--help":
            click.echo(ctx.get_help())
            ctx.exit()
        absent = {name.lower(): name for name in ABSENT}.get(args[0].lower())
        if absent is not None:
            raise UsageError(f"mqadmin {absent} is not here: {ABSENT[absent]}")
        return super().resolve_command(ctx, args)


command = MqAdminGroup(
    COMMANDS,
    SECTIONS,
    name="mqadmin",
    help="RocketMQ's own tool: its command names, its options, its output. Works with RocketMQ's"
    " brokers as well.",
    params=[output_for_all()],
    short_help="The commands of RocketMQ's own tool.",
    epilog="Of every command: -n HOST:PORT for the name servers, --output json, -h.",
    callback=lambda output: None,
)
