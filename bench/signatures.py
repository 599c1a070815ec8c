"""What signatures, policies and TLS cost a broker: the same sends with and without them.

The load generator sends one message again and again, so that one signature fits every request. The
broker cannot know that: it checks each request.
"""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.compat.peers.cluster import Cluster
from tests.compat.peers.secure import ADMIN, SECURE
from tests.runtime.test_tls import CERT, KEY

from bench import peers
from bench.load import TOPIC, Figures, build_loadgen
from bench.rows import Row
from bench.tls_proxy import running_proxy
from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_auth import policy_of
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.auth_bodies import UserInfo
from epochmq.wire.command import Command

ROWS = (Row("send 1 x 1", "send", 1), Row("send 16 x 16", "send", 16, 16))
USER = Credentials("bench", "bench-secret-1")
WARM_UP_S = 20.0
_ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True)
class Variant:
    """A way to send; without a user to a broker without authentication, else to one with it."""

    name: str
    user: Credentials | None
    tls: bool | None = None
    """None is a connection to the broker itself, otherwise there is a proxy between."""


SIGNATURES = (
    Variant("unsigned", None),
    Variant("signed", ADMIN),
    Variant("signed, with a policy", USER),
)
TLS = (
    Variant("plain", None, False),
    Variant("TLS", None, True),
    Variant("signed, with a policy", USER, False),
    Variant("signed, with a policy, TLS", USER, True),
)
_TLS_SERVER = {
    "tls.server.mode": "permissive",
    "tls.server.certPath": CERT,
    "tls.server.keyPath": KEY,
}


def signed_fields(user: Credentials, size: int) -> str:
    """Return the fields that sign the load generator's message of queue 0, as its option -x."""
    body = bytes(_ALPHABET[(i * 7 + i // 36) % 36] for i in range(size))
    properties = f"UNIQ_KEY\x017F0000010BAD18B4AAC2{0:012d}\x02WAIT\x01true\x02TAGS\x01TagA"
    ext = {
        "a": "PID_group", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0",
        "g": "1700000000000",
        "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    command = Command(310, ext=ext, body=body)
    user.sign(command)
    assert command.ext is not None
    return ",".join(f"{name}:{command.ext[name]}" for name in ("AccessKey", "Signature"))


def load(
    cluster: Cluster, row: Row, user: Credentials | None, port: int, warm_s: float, s: float
) -> Figures:
    """Put the load on the broker, through `port`."""
    args = [str(build_loadgen()), *row.loadgen_args(), "-z", "-v", "-q", "1", "-T", TOPIC]
    args += ["-p", str(port), "-P", str(cluster.broker.pid)]
    if user is not None:
        args += ["-x", signed_fields(user, row.size)]
    done = subprocess.run(
        [*args, "-w", str(warm_s), "-d", str(s)], stdout=subprocess.PIPE, text=True, check=False
    )
    out = json.loads(done.stdout.splitlines()[-1])
    if out["err"]:
        raise SystemExit(f"{row.name}: {out['err']} sends were refused")
    return Figures(out["rate"], out["broker_us"], out["p50"], out["p99"], 0, out["foreign"])


async def _prepare(cluster: Cluster, secure: bool) -> None:
    credentials = ADMIN if secure else None
    async with Admin(cluster.namesrv_addr, credentials=credentials) as admin:
        await admin.create_topic(TopicConfig(TOPIC, 4, 4))
        if secure:
            user = UserInfo(username=USER.access_key, password=USER.secret_key)
            await admin.create_user(cluster.broker_addr, user)
            acl = policy_of(f"User:{USER.access_key}", [f"Topic:{TOPIC}"], ["Pub"], "Allow")
            await admin.put_acl(cluster.broker_addr, acl)


@contextmanager
def _port(cluster: Cluster, variant: Variant) -> Iterator[int]:
    if variant.tls is None:
        yield cluster.broker_port
    else:
        with running_proxy(cluster.broker_port, tls=variant.tls) as port:
            yield port


def table(kinds: list[str], variants: Sequence[Variant], runs: int, seconds: float) -> str:
    """Run all rows in turn; a Markdown table of medians."""
    figures: dict[tuple[str, str, str], list[Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as root:
        clusters: dict[tuple[str, bool], Cluster] = {}
        try:
            for kind in kinds:
                for secure in (False, True):
                    extra = {**_TLS_SERVER} if kind == "epochmq" else {}
                    extra |= SECURE if secure else {}
                    made = peers.make(kind, Path(root) / f"{kind}-{secure}", False, **extra)
                    clusters[kind, secure] = made.start()
                    asyncio.run(_prepare(made, secure))
                    user = ADMIN if secure else None
                    load(made, ROWS[1], user, made.broker_port, WARM_UP_S, 1)
                    peers.pause(made)
            for row in ROWS:
                for _ in range(runs):
                    for variant in variants:
                        name = variant.name
                        for kind in kinds:
                            cluster = clusters[kind, variant.user is not None]
                            peers.free_page_cache()
                            peers.resume(cluster)
                            time.sleep(1.0)
                            with _port(cluster, variant) as port:
                                one = load(cluster, row, variant.user, port, 1, seconds)
                            peers.pause(cluster)
                            figures.setdefault((row.name, name, kind), []).append(one)
                            print(f"{row.name} {name} {kind} {one.rate:.0f}/s {one.cpu_us:.2f} us")
        finally:
            for made in clusters.values():
                peers.resume(made)
                made.stop()
    return _table(figures, kinds, variants)


def _table(
    figures: dict[tuple[str, str, str], list[Figures]],
    kinds: list[str],
    variants: Sequence[Variant],
) -> str:
    shown = {"epochmq": "EpochMQ", "java": "Java"}
    heads = [f"{shown[kind]} {what}" for kind in kinds for what in ("msg/s", "CPU us")]
    lines = [f"| row | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for row in ROWS:
        for variant in variants:
            found = [figures[row.name, variant.name, kind] for kind in kinds]
            cells = [
                text
                for runs in found
                for text in (
                    f"{median(one.rate for one in runs):,.0f}",
                    f"{median(one.cpu_us for one in runs):.2f}",
                )
            ]
            lines.append(f"| {row.name}, {variant.name} | {' | '.join(cells)} |")
    return "\n".join(lines)
