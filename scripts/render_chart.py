"""Renders the Helm chart to packaging/helm/rendered, where tests and readers see what it makes.

    python scripts/render_chart.py [HELM]

HELM is the path of Helm 3 or later; without it `helm` is looked up in PATH. Run it after each
change of the chart; the first line of a rendering has the digest of the chart.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "packaging" / "helm"
CHART = FOLDER / "epochmq"
RENDERED = FOLDER / "rendered"
RENDERINGS = ("default", "full")
KUBERNETES = "1.33.0"
"""The version that is rendered for, and whose schemas the tests use."""


def digest() -> str:
    """Return the digest of the chart and of the values of all renderings."""
    files = sorted(path for path in CHART.rglob("*") if path.is_file())
    files += sorted(RENDERED.glob("*.values.yaml"))
    total = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        total.update(f"{path.relative_to(FOLDER)} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def rendered(helm: str, name: str) -> str:
    """Return the manifests of the rendering `name`. Raises `CalledProcessError`."""
    values = RENDERED / f"{name}.values.yaml"
    chosen = ["-f", str(values)] if values.exists() else []
    target = ["--namespace", "mq", "--kube-version", KUBERNETES]
    command = [helm, "template", "rel", str(CHART), *target, *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"# Chart {digest()}, made by scripts/render_chart.py\n{done.stdout}"


def main() -> int:
    """Write all renderings; return the exit code."""
    helm = sys.argv[1] if len(sys.argv) > 1 else shutil.which("helm")
    if helm is None:
        print("render_chart: helm is not installed; give its path", file=sys.stderr)
        return 1
    for name in RENDERINGS:
        try:
            (RENDERED / f"{name}.yaml").write_text(rendered(helm, name))
        except subprocess.CalledProcessError as error:
            print(f"render_chart: {error.stderr.strip()}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
