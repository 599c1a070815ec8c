"""The Helm chart: valid manifests, and a release whose pods run here through a rolling update."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from scripts import render_chart
from tests.deployment.containers import Containers, can_mount

Manifest = Mapping[str, Any]
ROOT = Path(__file__).parents[2]
NOT_OF_KUBERNETES = {"PodMonitor"}
OUTSIDE = "kubectl and its cluster are not here: the pods of the chart run as processes instead"


def manifests(name: str) -> list[Manifest]:
    text = (render_chart.RENDERED / f"{name}.yaml").read_text()
    return [each for each in yaml.safe_load_all(text) if each]


def find(found: Sequence[Manifest], kind: str, end: str) -> Manifest:
    (one,) = (
        each for each in found if each["kind"] == kind and each["metadata"]["name"].endswith(end)
    )
    return one


# Manifests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", render_chart.RENDERINGS)
def test_the_rendering_is_that_of_the_chart(name: str) -> None:
    text = (render_chart.RENDERED / f"{name}.yaml").read_text()
    assert text.startswith(f"# Chart {render_chart.digest()},"), "run scripts/render_chart.py"


@pytest.mark.skipif(not shutil.which("helm"), reason="helm is not installed")
@pytest.mark.parametrize("name", render_chart.RENDERINGS)
def test_helm_renders_the_same(name: str) -> None:
    text = (render_chart.RENDERED / f"{name}.yaml").read_text()
    assert render_chart.rendered(shutil.which("helm") or "", name) == text


@pytest.mark.parametrize("name", render_chart.RENDERINGS)
def test_kubernetes_accepts_the_manifests(name: str) -> None:
    found = manifests(name)
    assert len(found) > 10
    for each in found:
        if each["kind"] not in NOT_OF_KUBERNETES:
            kubernetes_validate.validate(each, render_chart.KUBERNETES, strict=True)


@pytest.mark.parametrize("name", render_chart.RENDERINGS)
def test_pods_run_without_rights(name: str) -> None:
    found = manifests(name)
    pods = [
        each["spec"]["template"]["spec"] for each in found if "template" in each.get("spec", {})
    ]
    pods += [each["spec"] for each in found if each["kind"] == "Pod"]
    assert len(pods) >= 4
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            claims = {"data"} & mounted  # of the StatefulSet
            assert mounted <= {volume["name"] for volume in pod["volumes"]} | claims


@pytest.mark.parametrize("name", render_chart.RENDERINGS)
def test_selectors_find_the_pods(name: str) -> None:
    found = manifests(name)
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in found
        if "template" in each.get("spec", {})
    ]
    for each in found:
        spec = each.get("spec", {})
        selector = spec.get("podSelector", spec.get("selector"))
        if selector is None:
            continue
        wanted = selector.get("matchLabels", selector)
        assert any(wanted.items() <= pod.items() for pod in labels), each["metadata"]["name"]


def test_the_servers_accept_their_options(tmp_path: Path) -> None:
    """Also those of the full rendering, which the release below does not have."""
    for each in manifests("full"):
        spec = each["spec"].get("template", {}).get("spec") if "spec" in each else None
        if spec is None:
            continue
        (container,) = spec["containers"]
        secret = find(manifests("full"), "Secret", each["metadata"]["name"])
        file = tmp_path / "server.properties"
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (tmp_path / name).write_text("")
        properties = secret["stringData"]["server.properties"]
        file.write_text(properties.replace("/etc/epochmq-tls", str(tmp_path)))
        args = [
            arg.replace("/etc/epochmq/server.properties", str(file))
            .replace("$(POD_INDEX)", "0")
            .replace("$(POD_IP)", "127.0.0.1")
            for arg in container["args"]
        ]
        command = [sys.executable, "-m", "epochmq", *args, "-p"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (each["metadata"]["name"], done.stderr)


# A release -----------------------------------------------------------------------------------


class Release:
    """The pods of the default rendering, each with an address of its own."""

    def __init__(self, containers: Containers) -> None:
        self.containers = containers
        self._found = manifests("default")
        self._starts = 0

    def sets(self) -> Iterator[Manifest]:
        """Return the StatefulSets: name servers, controllers and brokers."""
        return (each for each in self._found if each["kind"] == "StatefulSet")

    def pods(self, stateful_set: Manifest) -> list[str]:
        """Return the names of the pods, in the order in which Kubernetes updates them."""
        name, count = stateful_set["metadata"]["name"], stateful_set["spec"]["replicas"]
        return [f"{name}-{number}" for number in reversed(range(count))]

    def start(self, stateful_set: Manifest, pod: str) -> None:
        """Start a pod with a new address."""
        self._starts += 1
        address = f"127.9.0.{self._starts}"
        service = stateful_set["spec"]["serviceName"]
        self.containers.name_host(f"{pod}.{service}.mq.svc", address)
        (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
        ordinal = pod.rpartition("-")[2]
        args = [
            arg.replace("$(POD_IP)", address).replace("$(POD_INDEX)", ordinal)
            for arg in container["args"]
        ]
        secret = find(self._found, "Secret", stateful_set["metadata"]["name"])
        properties = secret["stringData"]["server.properties"]
        files = {"/etc/epochmq/server.properties": properties}
        self.containers.start(pod, args, address, files)

    def wait_until_ready(self, stateful_set: Manifest, pod: str) -> None:
        """Wait for the readiness probe of a pod."""
        (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
        self.containers.wait_until_ok(pod, container["readinessProbe"]["httpGet"]["path"])
        assert self.containers.is_ok(pod, container["livenessProbe"]["httpGet"]["path"])

    def namesrv(self) -> str:
        """Return the addresses of the name servers, as brokers have them."""
        secret = find(self._found, "Secret", "broker-a")
        (line,) = re.findall("namesrvAddr = (.*)", secret["stringData"]["server.properties"])
        return str(line)


@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.skipif(not can_mount(), reason=f"{OUTSIDE}, which takes root and mount namespaces")
def test_a_rolling_update_loses_nothing(tmp_path: Path) -> None:
    """Each pod is stopped and returns with another address, as soon as the last one is ready."""
    with Containers(tmp_path) as containers:
        release = Release(containers)
        everything = [(each, pod) for each in release.sets() for pod in release.pods(each)]
        for stateful_set, pod in everything:
            release.start(stateful_set, pod)
        for stateful_set, pod in everything:
            release.wait_until_ready(stateful_set, pod)
        program = [sys.executable, "-m", "tests.deployment.load", release.namesrv()]
        load = subprocess.Popen(
            containers.in_hosts(program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert load.stdout is not None
        assert load.stdout.readline() == "started\n"
        for stateful_set, pod in everything:
            containers.stop(pod)
            release.start(stateful_set, pod)
            release.wait_until_ready(stateful_set, pod)
        printed, _ = load.communicate(timeout=120)
        result = json.loads(printed)
        print(result)
        assert result["missing"] == []
        assert result["failed"] == 0
        assert result["acknowledged"] > 100
