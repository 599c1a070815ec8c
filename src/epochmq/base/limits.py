"""The limits of all data that comes from outside."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""A whole frame with its 4-byte length field (RocketMQ's default)."""

HEADER_BYTES_MAX = 256 * 1024
"""A request's header. In JSON, each of the 32,767 bytes of properties may take up to 6 bytes; the
handler answers properties that are somewhat too long. A longer header is answered with a refusal.
"""
ANSWER_HEADER_BYTES_MAX = 4 * 1024 * 1024
"""An answer's header; for a batch it holds the id of each message."""

LENIENT_BODY_BYTES_MAX = 64 * 1024
"""A request's body that is not standard JSON or has wrong types. Large bodies of Java clients are
standard JSON, and such bodies of other clients are small."""
CAREFUL_BODY_BYTES_MAX = 16 * 1024
"""A request's body that the parser in plain Python reads."""
EXT_FIELDS_MAX = 256
JSON_DEPTH_MAX = 32
REMARK_BYTES_MAX = 32 * 1024

MESSAGE_BYTES_MAX = 4 * 1024 * 1024
"""Default of `maxMessageSize`: the body of one message."""

RECORD_EXTRA_BYTES_MAX = 64 * 1024
"""How much larger a whole record may be than the limit of its body."""

PROPERTIES_BYTES_MAX = 32767
TRANSACTION_ID_LENGTH_MAX = 1024
"""Characters of a message's UNIQ_KEY that the answer to a send repeats."""
TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120
NAME_LENGTH_MAX = 255

TRANSACTIONS_OPEN_MAX = 200_000
"""Open transactions of one broker; further half messages are refused as "busy"."""
ENDED_HALVES_MAX = 8_192
"""Transactions that an acting master ended while an older one is open, and hands over as ended: 35
bytes each in the table of consumer offsets. Further ones end in order only."""
TRANSACTION_ENDS_HELD_MAX = 2_000
"""Ends of transactions that wait until their half message is visible, or free."""
PULL_COUNT_MAX = 1024
BULK_READ_BYTES = 1024 * 1024
"""Bytes of records in the answer to a bulk read that does not set a size."""
BULK_READ_BYTES_MAX = 8 * 1024 * 1024
BULK_READ_RECORDS_MAX = 16_384
"""Consume queue units that one bulk read looks at, so that many small records do not block the
event loop for long."""
SINK_WEIGHT_MAX = 32_768
"""Size of the memory for repeats of sinks, in units of half a KiB. The part of a sink that was used
longest ago is forgotten first."""
SINK_RECENT_MAX = 200_000
"""Messages of sinks that are remembered one by one until they are confirmed and synced."""
DIGEST_BLOCK_BYTES = 1024 * 1024
DIGEST_BLOCK_BYTES_MIN = 4096
DIGEST_BLOCK_BYTES_MAX = 8 * 1024 * 1024
DIGEST_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of the log that one answer with digests covers."""
DIGEST_RUNS_MAX = 4
"""Requests for digests that one broker works on at a time."""
BULK_UNSENT_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of answers of one loop turn that may wait for a connection that sends another bulk read."""
QUEUES_PER_TOPIC_MAX = 1024

CONNECTIONS_MAX = 20_000
SESSION_IN_FLIGHT_BYTES_MAX = 64 * 1024 * 1024
"""Unsent answers to one peer; the connection of a peer that does not read is closed."""

CLIENT_IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024
"""Bodies that one producer sent and has no answer for; further sends wait.

A busy broker that stores 3 MB a second answers the last of them within the timeout of 3 s.
"""

UNSENT_TOTAL_BYTES_MAX = 1024 * 1024 * 1024
"""Unsent answers to all peers of one server; the peer with the most is disconnected first."""

PULL_COPIES_BYTES_MAX = 16 * 1024 * 1024
"""Short messages are copied into the answers to the pulls of a turn up to about this. Then the
answers are views of the log: one read of a connection may hold 850 pulls, each of 256 KiB."""
PULL_VIEWS_MAX = 32
"""Maximum number of messages of an answer that is made of views: a view needs 200 bytes of memory.
RocketMQ's clients ask for 32 by default."""
PULL_VIEWS_IN_TURN_MAX = 400_000
"""With so many messages in answers that are made of views, 80 MB, further pulls of the turn are
refused as busy."""

IDLE_MS = 120_000
HALF_FRAME_MS = 30_000
"""A frame must be complete within this time after its first byte (slow-loris)."""

HALF_FRAMES_TOTAL_BYTES_MAX = 1024 * 1024 * 1024
HALF_FRAMES_SHARE = 16
"""Unfinished frames of all peers of one server use at most `HALF_FRAMES_TOTAL_BYTES_MAX`, or this
fraction of the machine's memory if that is less; the largest is dropped first."""

KEY_SEARCHES_MAX = 64
"""Searches by key, and statistics of all groups, that a broker runs at a time, in turn."""

KEY_PLACES_MAX = 10_000
"""Places of messages with one key that a broker names; a reader of more reads the queues."""

LONG_POLLS_MAX = 100_000
LONG_POLLS_PER_QUEUE_MAX = 10_000
HOLD_MS_MAX = 120_000
POP_CHECK_POINTS_MAX = 200_000
"""Open check points of one revive queue in memory; others wait in the log."""
POP_INVISIBLE_MS_MAX = 3 * 24 * 60 * 60 * 1000
POP_ORDER_QUEUES_MAX = 200_000
"""Queues with an ordered pop that is not acknowledged completely."""
POP_ORDER_SPAN_MAX = 64
"""Messages of one queue that ordered pops deliver, counted from the first unacknowledged one;
acknowledgements among them are remembered."""
POP_ACKS_PER_REQUEST_MAX = 1_024
"""Messages that one request acknowledges, and entries that it has."""
CONFIGS_PER_REQUEST_MAX = 10_000
"""JSON objects in a list of topics or groups: about 5,000 topics, which take 30 ms."""
QUEUES_LOCKED_PER_REQUEST_MAX = 16_384
"""Queues that one request locks or unlocks; these take about 40 ms."""
POP_COPIES_BYTES_MAX = 128 * 1024 * 1024
"""Copies of popped messages whose check points are not stored yet, for example because a replica is
slow. With more, further pops are answered with POLLING_FULL."""
ESCAPES_MAX = 20_000
"""Messages that wait for a master of another group; further ones are tried again later."""
ESCAPES_REMEMBERED_MAX = 65_536
"""Messages handed over by other groups that are remembered to recognise repeats."""
BATCH_RECORDS_MAX = 65_536
SQL_LENGTH_MAX = 16 * 1024
SQL_DEPTH_MAX = 64
FILTER_COST_MAX = 40_000
"""Nodes of a filter that one read evaluates, about 20 ms; the next read continues the search."""

PATIENT_REQUESTS_MAX = 10_000
"""Messages that consumers sent back and that slow replicas do not have yet; further ones are
answered after `slaveTimeout`."""

STAT_ITEMS_MAX = 200_000
"""Statistics items, (name, key), of a broker; further ones share one item that is never shown."""

TOPICS_MAX = 200_000
GROUPS_MAX = 200_000
SUBSCRIPTIONS_PER_GROUP_MAX = 10_000
HEARTBEAT_GROUPS_MAX = 1_000
"""Groups in one heartbeat, with `SUBSCRIPTIONS_PER_GROUP_MAX` subscriptions in all of them."""
GROUPS_PER_SESSION_MAX = 10_000
"""Producer and consumer groups that one connection may announce."""

OFFSET_ROWS_MAX = 1_000_000
"""Pairs of topic and group with consumer offsets."""
TABLE_BYTES_MAX = 512 * 1024 * 1024
"""Answers of a broker with the parts of one table, in all."""
DELETIONS_KNOWN_MAX = 1_000
"""Deleted topics and groups whose time of deletion is remembered."""

LOCKS_PER_GROUP_MAX = 100_000
FILTERS_MAX = 100_000
REQUEST_MODES_MAX = 100_000
"""Pairs of topic and group with their own request mode."""

ROUTES_WATCHED_MAX = 20_000
"""Topics whose routes one broker keeps to assign their queues."""

COMPILED_FILTERS_MAX = 4_096
CLIENT_ID_LENGTH_MAX = 1_024

ROUTE_TOPICS_MAX = 500_000
"""Topics whose routes one name server keeps."""

ROUTE_BROKERS_MAX = 20_000
KV_BYTES_MAX = 1024 * 1024
"""The whole key-value configuration of a name server, which is written as a whole."""
KV_ENTRY_BYTES_MAX = 64 * 1024
HELD_BACK_BYTES_MAX = 1024 * 1024
"""Requests of one connection that wait at a name server while it reads a large registration."""
CONFIG_BODY_BYTES_MAX = 256 * 1024
"""Properties text of a request that changes options."""

REGISTER_BODY_BYTES_MAX = 64 * 1024 * 1024
"""Size to which a compressed registration may inflate, for a broker that is registered over the
same connection."""
REGISTER_FIRST_BYTES_MAX = 8 * 1024 * 1024
"""The same for a first registration, and for one that is not compressed."""
REGISTER_JSON_ENTRY_BYTES_MIN = 64
"""The settings of a topic in JSON are longer than this, which limits the objects of a body."""
REGISTER_FILTERS_MAX = 1_000
REGISTER_MAPPINGS_MAX = 20_000

RAFT_MESSAGE_BYTES_MAX = FRAME_BYTES_MAX - 64 * 1024
"""One Raft message, which is sent as the body of one frame."""

RAFT_SNAPSHOT_BYTES_MAX = RAFT_MESSAGE_BYTES_MAX - 64 * 1024
"""A snapshot, which is sent in one message."""

RAFT_ENTRY_BYTES_MAX = 4 * 1024 * 1024
RAFT_ENTRIES_PER_MESSAGE_MAX = 4_096
RAFT_TERM_STEP_MAX = 1 << 32
"""How far a term may be ahead of the own term."""
RAFT_TERM_MAX = 1 << 62
"""The highest term; terms are left for the next election."""
RAFT_UNPROVEN_MESSAGES_MAX = 64
RAFT_UNPROVEN_BYTES_MAX = 1024 * 1024
"""Messages of one connection that are kept until its sender is known; Raft repeats the rest."""
RAFT_QUESTIONS_MAX = 8
"""Connections that claim to belong to one controller and are checked at a time."""
RAFT_MEMBERS_MAX = 64
RAFT_PENDING_READS_MAX = 65_536
RAFT_NODE_NAME_LENGTH_MAX = 255

HA_ADDRESS_BYTES_MAX = 50
"""Address of a replica in the handshake of 5.0 and 5.1.0."""

HA_BATCH_BYTES_MAX = 4 * 1024 * 1024 - 4096
"""Log in one transfer frame: with its header it must fit the read buffer of 4 MiB of a Java
replica."""

HA_BODY_BYTES_MAX = 64 * 1024 * 1024
"""Log in one transfer frame that is accepted from a master."""

HA_LINKS_MAX = 1000
"""Connections to the replication port of one master."""

ACK_WAITS_MAX = 1_000_000
"""Groups of sends that wait for replicas; further ones are answered with a timeout."""

EPOCHS_SENT_MAX = 1000
"""Epochs in a replication handshake; the buffer of a Java master has no room for more."""

EPOCHS_KEPT_MAX = 10_000
RAW_WINDOW_BYTES = 1024 * 1024
"""Bytes that a follower takes from its master in one piece, at most."""

REPLICAS_MAX = 64
"""Replicas of one broker group."""

REPLICAS_TOTAL_MAX = 12_000
"""Replicas of all groups: the controllers' state must fit into one snapshot."""

BROKER_ID_MAX = 2**31
"""Broker ids are given from 1 up, so a larger one is not valid."""

LIVE_BROKERS_MAX = 100_000
"""Brokers whose heartbeats a controller keeps."""

EPOCH_MAX = 2**30
"""A master epoch above this is not accepted; epochs are Java ints."""

CONTROLLER_CALLS_MAX = 50_000
"""Requests that may wait in a controller (RocketMQ's controllerRequestThreadPoolQueueCapacity)."""

TIMELINE_MAX = 256
"""Elections that a controller remembers."""

WATCHERS_MAX = 1_000
"""Requests of replicas that one broker keeps until a table changes."""

USERS_MAX = 2_000
USER_NAME_LENGTH_MAX = 128
PASSWORD_LENGTH_MAX = 512
POLICY_ENTRIES_MAX = 1_000
"""Entries in one policy of a user; a request may be compared with each of them."""
POLICY_ENTRIES_TOTAL_MAX = 10_000
"""Entries of all users of a broker group; a replica copies all of them."""
POLICY_SOURCES_MAX = 64
"""Source addresses in one entry."""
