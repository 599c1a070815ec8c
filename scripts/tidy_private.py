"""The rule `private` of scripts/tidy.py: tests do not use private attributes of other packages."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tidy_tree import EXAMPLES, PACKAGE, Tree, dotted_name

NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_make"}
"""Public in spite of their names."""
DEFINED = re.compile(
    r"\b(?:def|class)\s+(_[a-z]\w*)|\bself\.(_[a-z]\w*)|^\s*(_[a-z]\w*)\s*[:=]", re.MULTILINE
)
USED = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-z]")


def check_private(tree: Tree) -> None:
    """Tests that use an attribute which only other packages of the product define."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    product = tree.root / "src" / PACKAGE
    for path in product.rglob("*.py"):
        for name in private_names(path.read_text(encoding="utf-8")):
            owners[name].add(folder_below(path, product))
    tests = {path: path.read_text(encoding="utf-8") for path in (tree.root / "tests").rglob("*.py")}
    others = list(tests.values())
    for folder in ("sim", "chaos", "bench", EXAMPLES):
        others += [p.read_text(encoding="utf-8") for p in (tree.root / folder).rglob("*.py")]
    elsewhere = {name for text in others for name in private_names(text)}
    for path, text in tests.items():
        package = folder_below(path, tree.root / "tests")
        for node in private_uses(text):
            packages = owners.get(node.attr, set())
            if packages and package not in packages and node.attr not in elsewhere:
                says = f"{ast.unparse(node)} belongs to {', '.join(sorted(packages))}"
                tree.report(str(path.relative_to(tree.root)), node.lineno, "private", says)


def folder_below(path: Path, root: Path) -> str:
    """Return the first folder of a file below `root`; empty for files directly in it."""
    parts = path.relative_to(root).parts
    return parts[0] if len(parts) > 1 else ""


def private_names(text: str) -> set[str]:
    """Return the private names that a file defines: functions, classes, variables, attributes."""
    return {name for found in DEFINED.findall(text) for name in found if name}


def private_uses(text: str) -> Iterator[ast.Attribute]:
    """Yield each use of a private attribute of another object."""
    if not USED.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
            if node.attr not in NAMEDTUPLE and dotted_name(node.value) not in ("self", "cls"):
                yield node
