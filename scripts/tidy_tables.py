"""The tables of scripts/tidy.py: layers, shells, cores, banned names, the reason of each rule."""

import re

from tidy_tree import EXAMPLES, PACKAGE

LAYERS = {
    "base": 0,
    "model": 1,
    "native": 1,  # plain bytes: it knows neither the store nor the wire
    **dict.fromkeys(("wire", "store", "raft"), 2),
    **dict.fromkeys(("replication", "auth", "runtime"), 3),
    **dict.fromkeys(("nameserver", "controller", "broker", "relay", "client"), 4),
    **dict.fromkeys(("observe", "tables"), 5),
    "spark": 6,
    "backup": 6,
    "kombu": 6,  # a transport of another project's framework
    "testing": 6,  # runs servers and clients in the process of a test
    "admin": 7,  # the command line reaches everything, jobs on Spark too
}
TOP = {name for name, layer in LAYERS.items() if layer >= 5}
OUTSIDERS = {"sim", "chaos", "tests", "bench", "scripts", EXAMPLES}
ROOT_MODULES = {PACKAGE, f"{PACKAGE}.__main__", f"{PACKAGE}.errors"}
"""The version, which every layer may read, and the start of the command line."""
ENTRY_POINTS = {
    f"{PACKAGE}.admin.cli",
    f"{PACKAGE}.__main__",
    f"{PACKAGE}.testing.pytest_plugin",
}
# Files that may await. Of some packages the whole: see check_colour.
SHELLS = {
    "base/task_set.py",
    "broker/group/acting_service.py",
    "broker/consume/route_service.py",
    "broker/state/background_worker.py",
    "broker/server/broker_server.py",
    "broker/server/container_service.py",
    "broker/escape/escape_service.py",
    "broker/group/lock_service.py",
    "broker/group/controller_mode_member.py",
    "broker/group/plain_member.py",
    "broker/group/acting_progress.py",
    "broker/group/pre_online_peers.py",
    "broker/group/pre_online_service.py",
    "broker/group/duplicate_id.py",
    "broker/group/registrar.py",
    "broker/pop/remote_fetch.py",
    "broker/group/metadata_sync_service.py",
    "broker/scrub/scrub_service.py",
    "broker/state/table_writer.py",
    "controller/server/controller_peers.py",
    "controller/server/controller_server.py",
    "nameserver/name_server.py",
    "relay/master_watch.py",
    "relay/relay_server.py",
    "replication/master_link.py",
    "replication/plain/plain_service.py",
    "replication/replica_server.py",
    "replication/replication_service.py",
    "store/store_service.py",
}
# Files that decide and do nothing else: their own tests cover them whole
# (tests/scripts/test_cores.py).
CORES = (
    "broker/group/acting_master.py",
    "broker/consume/route_book.py",
    "broker/server/roster.py",
    "broker/escape/escape_bridge.py",
    "broker/consume/consumer_filters.py",
    "broker/consume/queue_locks.py",
    "broker/consume/long_polling.py",
    "broker/group/group_membership.py",
    "broker/consume/consumer_offsets.py",
    "broker/pop/pop_buffer.py",
    "broker/pop/ordered_pop.py",
    "broker/pop/revive.py",
    "broker/pop/pop_windows.py",
    "broker/group/pre_online.py",
    "broker/group/registration.py",
    "broker/group/metadata_sync.py",
    "broker/delay/delay_schedule.py",
    "broker/scrub/scrub_plan.py",
    "broker/state/broker_stats.py",
    "broker/delay/timed_messages.py",
    "broker/transaction/open_transactions.py",
    "controller/controller_core.py",
    "raft/raft_core.py",
)

_CLOCK = "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time sleep"
_DISK = (
    "open fdopen read write pread pwrite preadv pwritev fsync fdatasync replace rename unlink"
    " remove mkdir makedirs rmdir truncate ftruncate posix_fallocate listdir scandir walk stat"
)
# Only runtime/ and the top layer reach the outside world; everything else gets it through a port.
IMPURE = {
    *(f"time.{name}" for name in _CLOCK.split()),
    *(f"os.{name}" for name in _DISK.split()),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
    "os.urandom",
    "os.getrandom",
    "io.open",
    "open",
    "uuid",
    "secrets",
    "threading",
    "_thread",
    "socket",
    "select",
    "selectors",
    "multiprocessing",
    "signal",
    "mmap",
}
# Pages without a file are memory like any other; the one place that asks for them.
PAGES = "native/memory.py"
# Nowhere in the product: each has been somebody's remote code execution.
DANGEROUS = {
    "os.system",
    "os.popen",
    "asyncio.create_subprocess_shell",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "yaml.load",
    "yaml.unsafe_load",
    "eval",
    "exec",
    "pickle",
    "_pickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "pty",
}
# Servers and clients start no processes; the command line does. One reader does too: protoc, which
# parses a stranger's schema in C++, may crash or not end, and must not take Spark's worker with it.
PROTOC = "spark/protobuf_source.py"
PROCESSES = {"subprocess", "asyncio.create_subprocess_exec", "os.fork", "os.posix_spawn"}

# Words that named things of the product once: docs/GLOSSARY.md has them too.
RETIRED = {
    "afar": "remote fetch",
    "beside": "background",
    "desk": "handler, or harness",
    "dialect": "protocol version",
    "doors": "liveness probe",
    "evidence": "log lookup",
    "guests": "unconfirmed followers",
    "hands": "driver",
    "lane": "send topic, or sink queue",
    "namesake": "duplicate id",
    "outlet": "internal writer",
    "parcel": "forward item",
    "patience": "retries, or pending writes",
    "saver": "table writer",
    "seam": "cut-over",
    "seldom": "throttle",
    "twin": "native",
}
KEPT_NAMES = {"outlet_advances_after_ack"}
"""A switch of the simulator, which replay commands name."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SHARED = {"PopConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"}
"""Classes of `client/sync` that are named as those of `client/aio`, so that a program changes its
import only."""
SHARED_MODULES = {"__init__", "__main__", "options", "errors"}
CITED = re.compile(r"`([\w/.]+\.py)(?:::\w+)?`")
CITED_PAGE = re.compile(r"(?<![\w./:-])((?:[\w-]+/)*[\w-]+\.md)\b")
CITED_EXAMPLES = {"app.py", "inv_XX.py"}

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
MACHINE_PATH = re.compile(
    r"(?<![\w./])/(?:wor[k]|far[m])/|/roo[t]/|/User[s]/\w|(?:extra-)?index-ur[l]|/home/\w+/"
)
TEXT_FILES = ("*.md", "*.toml", "*.yml", "*.yaml", "*.sh", "*.json", "Makefile", "bootstrap", "run")

RULES = {
    "layer": "An import points at a strictly lower layer or into its own package, so that any part"
    " can be read and tested knowing only what lies below it. Move the shared piece down, or pass"
    " it in as a value or a port.",
    "cycle": "Modules that import each other cannot be understood or started apart. Move what both"
    " need into a third one below them.",
    "private": "A test that uses a private attribute of another package breaks when that package is"
    " changed, and its engineer does not know why. Use what is public, or a helper in the tests of"
    " the package that owns the attribute.",
    "package-cycle": "Folders that import each other have no order in which they can be read. Move"
    " what both need into a folder below them, or the module that needs both above them.",
    "colour": "Coroutines live only in the files that SHELLS lists, in runtime/, client/aio/ and"
    " the top layer. A core takes values and `now`, and returns effects; the shell awaits.",
    "impure": "Clock, disk, sockets, threads, signals and random numbers belong to runtime/. Take"
    " a port (base/ports.py) or the value itself as a parameter: else nothing can replay it.",
    "danger": "Shells, evaluated text and object deserialisers turn input into code (as in"
    " CVE-2023-33246). Processes are started in admin/ only, from argument lists.",
    "size": "A file holds at most 600 lines (800 in tests), a function 80 code lines, a line 100"
    " characters. Find the second idea in it and give that a name of its own.",
    "median": "Half of all files stay within 200 code lines, half of all functions within 12 (no"
    " docstring, comment or blank line counts). A higher figure in the ratchet only goes down.",
    "unused": "A module that no other module imports is dead, unless it is an entry point.",
    "untested": "A module of 16 code lines or more that does something has tests in the mirrored"
    " folder: src/epochmq/a/b.py in tests/a/test_b.py, or in files of tests/a/ that import it and"
    " are named after its subjects. The exceptions stand in the ratchet.",
    "stale": "The ratchet excuses something that needs it no longer. `make fix` removes it.",
    "word": "A newcomer searches for the word of RocketMQ, Raft or Python. RETIRED has words that"
    " meant something here only, and what to say; docs/GLOSSARY.md has the terms.",
    "unique": "A class of the product has a name of its own, so that a search finds one class."
    " The same holds for modules, but `__init__` and `options`. SHARED has the exceptions.",
    "splat": "f(*(a, b), c) hides which argument is which, and finds no reader by search. Write"
    " f(a, b, c).",
    "late-binding": "`other.on_change = self.changed` hides what is called, and leaves `other`"
    " incomplete until then. Pass the function to the constructor, or to a method that says what"
    " it is for.",
    "cite": "A page (.md), or a module in backticks, that a document or a docstring names exists:"
    " its path or the end of its path. Correct the name, or leave it out.",
    "unfinished": "Markers of unfinished work rot. Finish it, or open an issue.",
    "path": "Paths and addresses of one machine do not belong in the project.",
    "syntax": "The file does not parse.",
}
