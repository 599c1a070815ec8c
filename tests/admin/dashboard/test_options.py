"""Options of the dashboard: clusters, hosts, and what is refused."""

import pytest

from epochmq.admin.dashboard.options import ShownCluster, load_options
from epochmq.base.errors import ConfigError


def test_several_clusters() -> None:
    options = load_options({"clusters": "prod=10.0.0.1:9876,10.0.0.2:9876; test=h:1 ;"})
    assert options.shown_clusters() == [
        ShownCluster("prod", "10.0.0.1:9876;10.0.0.2:9876"),
        ShownCluster("test", "h:1"),
    ]


def test_one_cluster_is_named_after_its_name_servers() -> None:
    """Its name is a part of the paths of its ledgers, which another cluster must not share."""
    one, other = (load_options({"namesrvAddr": text}) for text in ("a:1;b:2", "c:1"))
    assert one.shown_clusters() == [ShownCluster("a-1_b-2", "a:1;b:2")]
    assert other.shown_clusters()[0].name != one.shown_clusters()[0].name


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clusters": "prod"}, "is not a cluster"),
        ({"clusters": "=h:1"}, "is not a cluster"),
        ({"clusters": "../x=h:1"}, "is not a cluster"),
        ({"clusters": "a=h:1;a=h:2"}, "names a twice"),
        ({"clusters": "a=nowhere"}, "clusters"),
        ({"clusters": ";".join(f"c{n}=h:1" for n in range(51))}, "more than 50"),
        ({"clusters": "a=h:1", "namesrvAddr": "h:1"}, "exclude each other"),
        ({"namesrvAddr": "h:99999"}, "namesrvAddr"),
        ({"certPath": "x.pem"}, "need each other"),
        ({"bindAddress": "0.0.0.0"}, "plain text"),
        ({"listenPort": "70000"}, "listenPort"),
        ({"sessionHours": "0"}, "sessionHours"),
    ],
)
def test_what_is_wrong_is_told(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_options(settings)


def test_hosts() -> None:
    assert load_options({}).hosts() == {"127.0.0.1", "::1", "localhost"}
    options = load_options(
        {"bindAddress": "0.0.0.0", "behindTlsProxy": "true", "allowedHosts": "MQ.example.org, b"}
    )
    assert options.hosts() == {"0.0.0.0", "mq.example.org", "b"}
    assert options.uses_tls
