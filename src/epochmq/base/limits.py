"""Every bound in one file: nothing from outside may grow without one."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""A whole frame, its 4-byte length field included (RocketMQ's default)."""

HEADER_BYTES_MAX = 256 * 1024
"""A request's header. In JSON a byte of the 32,767 that properties may have takes up to 6, and what
is somewhat too long is to be answered by its handler; a longer one is answered as a refusal."""
ANSWER_HEADER_BYTES_MAX = 4 * 1024 * 1024
"""An answer's header, which for a batch holds the id of each of its messages."""

LENIENT_BODY_BYTES_MAX = 64 * 1024
"""A request's body that is not standard JSON, or not quite of the types it must be: what Java sends
is standard where it is large, and what other clients send loosely is small."""
CAREFUL_BODY_BYTES_MAX = 16 * 1024
"""A request's body that goes through the parser in plain Python."""
EXT_FIELDS_MAX = 256
JSON_DEPTH_MAX = 32
REMARK_BYTES_MAX = 32 * 1024

MESSAGE_BYTES_MAX = 4 * 1024 * 1024
"""Default of `maxMessageSize`: one message's body."""

RECORD_EXTRA_BYTES_MAX = 64 * 1024
"""A whole record may be this much larger than its body's limit."""

PROPERTIES_BYTES_MAX = 32767
TRANSACTION_ID_LENGTH_MAX = 1024
"""Characters of a message's UNIQ_KEY that the answer to a send repeats."""
TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120
NAME_LENGTH_MAX = 255

TRANSACTIONS_OPEN_MAX = 200_000
"""Transactions of one broker that are not over; more half messages are refused as "busy"."""
ENDED_HALVES_MAX = 8_192
"""Transactions that a stand-in ended while an older one is open, and hands over as ended: 35 bytes
each in the table of consumer offsets. Beyond, they end in order only."""
TRANSACTION_ENDS_HELD_MAX = 2_000
"""Ends of transactions that wait until their half message is visible, or free."""
PULL_COUNT_MAX = 1024
BULK_READ_BYTES = 1024 * 1024
"""Records in the answer to a bulk read that does not say how much it wants."""
BULK_READ_BYTES_MAX = 8 * 1024 * 1024
BULK_READ_RECORDS_MAX = 16_384
"""Units that one bulk read looks at: with small records it ends before the bytes do, so that no
request keeps the loop for long."""
SINK_WEIGHT_MAX = 32_768
"""What the memory for repeats of sinks may hold, in chunks of half a KiB; the part of a sink that
was used longest ago is forgotten first."""
SINK_RECENT_MAX = 200_000
"""Messages of sinks remembered singly until they are confirmed and synced."""
DIGEST_BLOCK_BYTES = 1024 * 1024
DIGEST_BLOCK_BYTES_MIN = 4096
DIGEST_BLOCK_BYTES_MAX = 8 * 1024 * 1024
DIGEST_BYTES_MAX = 64 * 1024 * 1024
"""Log that one request for digests is answered for."""
DIGEST_RUNS_MAX = 4
"""Requests for digests that one broker works at."""
BULK_UNSENT_BYTES_MAX = 16 * 1024 * 1024
"""Answers of one loop turn that may wait for a connection that asks for more by a bulk read."""
QUEUES_PER_TOPIC_MAX = 1024

CONNECTIONS_MAX = 20_000
SESSION_IN_FLIGHT_BYTES_MAX = 64 * 1024 * 1024
"""Unsent answers to one peer; a peer that does not read is cut."""

CLIENT_IN_FLIGHT_BYTES_MAX = SESSION_IN_FLIGHT_BYTES_MAX // 2
"""Bodies that one producer has sent and has no answer for; further sends wait."""

UNSENT_TOTAL_BYTES_MAX = 1024 * 1024 * 1024
"""Unsent answers to all peers of one server; who leaves the most unread is cut first."""

IDLE_MS = 120_000
HALF_FRAME_MS = 30_000
"""A started frame must be whole within this time (slow-loris)."""

HALF_FRAMES_TOTAL_BYTES_MAX = 1024 * 1024 * 1024
HALF_FRAMES_SHARE = 16
"""Unfinished frames of all peers of one server have so much memory, or this part of the machine's
where that is less; the largest is cut first."""

KEY_SEARCHES_MAX = 64
"""Searches by key that a broker has under way; each is carried on in turn."""

LONG_POLLS_MAX = 100_000
LONG_POLLS_PER_QUEUE_MAX = 10_000
HOLD_MS_MAX = 120_000
POP_CHECK_POINTS_MAX = 200_000
"""Open check points that one revive queue keeps in memory; others wait in the log."""
POP_INVISIBLE_MS_MAX = 3 * 24 * 60 * 60 * 1000
POP_ORDER_QUEUES_MAX = 200_000
"""Queues of which a batch of an ordered pop is out."""
POP_ORDER_SPAN_MAX = 64
"""Messages of one queue, from the first that nobody acknowledged, that ordered pops hand out: what
of them is acknowledged is remembered."""
POP_ACKS_PER_REQUEST_MAX = 1_024
ESCAPES_MAX = 20_000
"""Messages that wait for a master of another group; more are put again later."""
ESCAPES_REMEMBERED_MAX = 65_536
"""Messages handed over by other groups of which a repeat is told from the first."""
BATCH_RECORDS_MAX = 65_536
SQL_LENGTH_MAX = 16 * 1024
SQL_DEPTH_MAX = 64
FILTER_COST_MAX = 40_000
"""Nodes of a filter that one read evaluates, about 20 ms; a longer search goes on at the next."""

PATIENT_REQUESTS_MAX = 10_000
"""Messages that consumers sent back and slow replicas lack; more are answered after
`slaveTimeout`."""

STAT_ITEMS_MAX = 200_000
"""Counted (name, key) pairs of a broker; more share one item nobody reads."""

TOPICS_MAX = 200_000
GROUPS_MAX = 200_000
SUBSCRIPTIONS_PER_GROUP_MAX = 10_000
HEARTBEAT_GROUPS_MAX = 1_000
"""Groups in one heartbeat, and `SUBSCRIPTIONS_PER_GROUP_MAX` subscriptions of all of them."""
GROUPS_PER_SESSION_MAX = 10_000
"""Producer and consumer groups that one connection may announce."""

OFFSET_ROWS_MAX = 1_000_000
"""Pairs of topic and group for which consumer offsets are kept."""
DELETIONS_KNOWN_MAX = 1_000
"""Deleted topics and groups of which is remembered when that was."""

LOCKS_PER_GROUP_MAX = 100_000
FILTERS_MAX = 100_000
REQUEST_MODES_MAX = 100_000
"""Pairs of topic and group that are read in a way of their own."""

ROUTES_WATCHED_MAX = 20_000
"""Topics whose routes one broker keeps to share their queues out."""

COMPILED_FILTERS_MAX = 4_096
CLIENT_ID_LENGTH_MAX = 1_024

ROUTE_TOPICS_MAX = 500_000
"""Topics that one name server keeps routes of."""

ROUTE_BROKERS_MAX = 20_000
KV_BYTES_MAX = 1024 * 1024
"""The whole key-value configuration of a name server, which is written whole."""
KV_ENTRY_BYTES_MAX = 64 * 1024
HELD_BACK_BYTES_MAX = 1024 * 1024
"""Requests of one connection that wait at a name server until its large registration is read."""
CONFIG_BODY_BYTES_MAX = 256 * 1024
"""Properties text of a request that changes options."""

REGISTER_BODY_BYTES_MAX = 64 * 1024 * 1024
"""A compressed registration may inflate to this much, for a broker that is registered over the same
connection."""
REGISTER_FIRST_BYTES_MAX = 8 * 1024 * 1024
"""The same for a first registration, and for one that is not compressed."""
REGISTER_JSON_ENTRY_BYTES_MIN = 64
"""A topic's settings in JSON take more than this, so a body has a bounded number of objects."""
REGISTER_FILTERS_MAX = 1_000
REGISTER_MAPPINGS_MAX = 20_000

RAFT_MESSAGE_BYTES_MAX = FRAME_BYTES_MAX - 64 * 1024
"""One Raft message in bytes, which travels as the body of one frame."""

RAFT_SNAPSHOT_BYTES_MAX = RAFT_MESSAGE_BYTES_MAX - 64 * 1024
"""A snapshot travels in one message."""

RAFT_ENTRY_BYTES_MAX = 4 * 1024 * 1024
RAFT_ENTRIES_PER_MESSAGE_MAX = 4_096
RAFT_TERM_STEP_MAX = 1 << 32
"""How far a term may be ahead of the own one: more elections than a century sees."""
RAFT_TERM_MAX = 1 << 62
"""No term is higher; there are always terms left for the next election."""
RAFT_UNPROVEN_MESSAGES_MAX = 64
RAFT_UNPROVEN_BYTES_MAX = 1024 * 1024
"""What is kept of one connection until it is known whose it is; Raft repeats the rest."""
RAFT_QUESTIONS_MAX = 8
"""Connections in question at a time that claim to be one controller's."""
RAFT_MEMBERS_MAX = 64
RAFT_PENDING_READS_MAX = 65_536
RAFT_NODE_NAME_LENGTH_MAX = 255

HA_ADDRESS_BYTES_MAX = 50
"""A replica's address in the handshake of 5.0 and 5.1.0."""

HA_BATCH_BYTES_MAX = 4 * 1024 * 1024 - 4096
"""Log in one transfer frame: with its header it must fit a Java replica's read buffer of 4 MiB."""

HA_BODY_BYTES_MAX = 64 * 1024 * 1024
"""Log in one transfer frame that we take from a master."""

HA_LINKS_MAX = 1000
"""Followers, and strangers, connected to one master's replication port."""

ACK_WAITS_MAX = 1_000_000
"""Groups of sends that wait for replicas; more are answered as timed out."""

EPOCHS_SENT_MAX = 1000
"""Entries of a replication handshake; a Java master's buffer has no room for more."""

EPOCHS_KEPT_MAX = 10_000
RAW_WINDOW_BYTES = 1024 * 1024
"""How much a follower takes from its master in one piece at most."""

REPLICAS_MAX = 64
"""Replicas of one broker group."""

REPLICAS_TOTAL_MAX = 12_000
"""Replicas of all groups: the controllers' state must fit into one snapshot."""

BROKER_ID_MAX = 2**31
"""They are given out from 1 up, so a larger one is nobody's."""

LIVE_BROKERS_MAX = 100_000
"""Brokers that a controller keeps heartbeats of."""

EPOCH_MAX = 2**30
"""A master epoch above this is believed of nobody: epochs are Java ints."""

CONTROLLER_CALLS_MAX = 50_000
"""Requests that may wait in a controller (RocketMQ's controllerRequestThreadPoolQueueCapacity)."""

TIMELINE_MAX = 256
"""Elections that a controller remembers for those who ask what happened."""

WATCHERS_MAX = 1_000
"""Requests of replicas that one broker keeps until a table changes."""
