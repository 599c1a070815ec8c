"""The project's own linter: the house rules that general tools do not know.

    python scripts/tidy.py                  check; one line a finding, exit code 1 if there is any
    python scripts/tidy.py --explain RULE   why a rule exists and what to do about it
    python scripts/tidy.py --tighten        drop from the ratchet what the tree no longer needs

Pure standard library, nothing is imported from the tree it reads.
"""

import argparse
import ast
import functools
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tidy_private import check_private
from tidy_tables import (
    CITED,
    CITED_EXAMPLES,
    CITED_PAGE,
    DANGEROUS,
    ENTRY_POINTS,
    IMPURE,
    KEPT_NAMES,
    LAYERS,
    MACHINE_PATH,
    OUTSIDERS,
    PAGES,
    PROCESSES,
    PROTOC,
    RETIRED,
    ROOT_MODULES,
    RULES,
    SHARED,
    SHARED_MODULES,
    SHELLS,
    TEXT_FILES,
    TOP,
    UNFINISHED,
    WORD,
)
from tidy_tree import (
    EXAMPLES,
    PACKAGE,
    RATCHET,
    Finding,
    Module,
    Tree,
    dotted_name,
    functions_of,
    is_stub,
    names_used,
    read_tree,
    strings_of,
)

FILE_LINES_MAX = 600
TEST_FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 80
LINE_LENGTH_MAX = 100
MEDIANS = {"file_median": 200.0, "function_median": 12.0}
TEST_OWED_FROM = 16

# Rules ---------------------------------------------------------------------------------------


def check_layers(tree: Tree) -> None:
    for module in tree.modules.values():
        if module.package and module.package not in LAYERS:
            tree.report(module.path, 1, "layer", f"{module.package}/ has no place in the layers")
            continue
        for target, line in module.imports:
            why = layer_breach(module, target)
            if why:
                tree.report(module.path, line, "layer", why)


def layer_breach(module: Module, target: str) -> str | None:
    first, *rest = target.split(".")
    if first in OUTSIDERS:
        return f"the product does not import {first}"
    if first != PACKAGE or not rest or not module.package or rest[0] not in LAYERS:
        return None
    own, other = LAYERS[module.package], LAYERS[rest[0]]
    if rest[0] == module.package:
        return None
    if module.within("client/core") and rest[0] == "runtime":
        return "client/core is pure and does not import runtime"
    if other < own:
        return None
    return f"{module.package} (L{own}) must not import {rest[0]} (L{other})"


def check_cycles(tree: Tree) -> None:
    edges = {
        name: sorted({t for t, _ in module.imports if t in tree.modules and t != name})
        for name, module in tree.modules.items()
    }
    done: set[str] = set()
    trail: list[str] = []

    def visit(name: str) -> None:
        if name in trail:
            loop = [*trail[trail.index(name) :], name]
            tree.report(tree.modules[name].path, 1, "cycle", " -> ".join(loop))
        elif name not in done:
            trail.append(name)
            for target in edges[name]:
                visit(target)
            trail.pop()
            done.add(name)

    for name in sorted(edges):
        visit(name)


def check_package_cycles(tree: Tree) -> None:
    """Folders that import each other, one finding for each import that closes a cycle."""
    edges: dict[str, dict[str, tuple[Module, int]]] = {}
    modules = tree.modules | tree.helpers
    for module in modules.values():
        if module.name in ROOT_MODULES:
            continue
        own = folder_of(module)
        for target, line in module.imports:
            known = modules.get(target)
            if known is not None and known.name not in ROOT_MODULES and folder_of(known) != own:
                edges.setdefault(own, {}).setdefault(folder_of(known), (module, line))
    for own in sorted(edges):
        for other, (module, line) in sorted(edges[own].items()):
            if way := path_between(edges, other, own):
                shown = " -> ".join([own, *way])
                tree.report(module.path, line, "package-cycle", shown)


def folder_of(module: Module) -> str:
    return module.path.rpartition("/")[0]


def path_between(
    edges: dict[str, dict[str, tuple[Module, int]]], start: str, end: str
) -> list[str]:
    """The folders from `start` to `end`, both included, along imports; empty if there is no way."""
    trails, seen = [[start]], {start}
    while trails:
        trail = trails.pop(0)
        if trail[-1] == end:
            return trail
        for target in sorted(edges.get(trail[-1], ())):
            if target not in seen:
                seen.add(target)
                trails.append([*trail, target])
    return []


def check_colour(tree: Tree) -> None:
    kinds = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for module in tree.modules.values():
        if module.package in TOP or module.within("runtime", "client/aio"):
            continue
        inside = module.path.partition(f"/{PACKAGE}/")[2]
        if inside in SHELLS:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.AsyncFunctionDef) and is_stub(node):
                continue
            if isinstance(node, kinds) or (isinstance(node, ast.comprehension) and node.is_async):
                line = getattr(node, "lineno", 1)
                tree.report(module.path, line, "colour", "async code outside the async files")
                break


def banned(name: str, names: set[str]) -> bool:
    """Whether the name, or the module it comes from, is in the set."""
    return name in names or name.split(".")[0] in names


def is_random(name: str) -> bool:
    # A generator made from a seed is a value like any other; the module's hidden one is not.
    return name.startswith("random.") and name not in ("random.Random", "random")


def check_names(tree: Tree) -> None:
    for module in tree.modules.values():
        outside = module.package in TOP or module.within("runtime")
        own = {"mmap"} if module.path.endswith(f"/{PACKAGE}/{PAGES}") else set()
        seen: set[tuple[str, int]] = set()
        for name, line in names_used(module):
            if (name, line) in seen:
                continue
            seen.add((name, line))
            if banned(name, DANGEROUS):
                tree.report(module.path, line, "danger", f"{name} is banned in the product")
            elif banned(name, PROCESSES) and not may_start_processes(module):
                tree.report(module.path, line, "danger", f"{name}: processes start in admin only")
            elif not outside and (banned(name, IMPURE - own) or is_random(name)):
                tree.report(module.path, line, "impure", f"{name} belongs to runtime")
        check_shell(tree, module)


def may_start_processes(module: Module) -> bool:
    return module.package == "admin" or module.path.endswith(f"/{PACKAGE}/{PROTOC}")


def check_shell(tree: Tree, module: Module) -> None:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "shell" and not is_false(keyword.value):
                    tree.report(module.path, node.lineno, "danger", "a shell must not be started")


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def check_sizes(tree: Tree) -> None:
    for path in tree.python_files("src", EXAMPLES, "tests", "scripts", "bench", "sim", "chaos"):
        shown = path.relative_to(tree.root).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        limit = TEST_FILE_LINES_MAX if shown.startswith("tests/") else FILE_LINES_MAX
        if len(lines) > limit:
            tree.report(shown, limit + 1, "size", f"{len(lines)} lines, the limit is {limit}")
        for number, text in enumerate(lines, 1):
            if len(text) > LINE_LENGTH_MAX:
                tree.report(shown, number, "size", f"{len(text)} characters in one line")
    for module in tree.all_modules():
        for name, line, count in functions_of(module):
            if count > FUNCTION_LINES_MAX:
                tree.report(module.path, line, "size", f"{name} has {count} code lines")


def medians(tree: Tree) -> dict[str, float]:
    files = [len(module.code_lines) for module in tree.modules.values() if module.code_lines]
    functions = [n for module in tree.modules.values() for _, _, n in functions_of(module)]
    return {
        "file_median": float(statistics.median(files)) if files else 0.0,
        "function_median": float(statistics.median(functions)) if functions else 0.0,
    }


def median_limits(tree: Tree) -> dict[str, float]:
    return {k: max(v, float(str(tree.ratchet.get(k, v)))) for k, v in MEDIANS.items()}


def check_medians(tree: Tree) -> None:
    limits = median_limits(tree)
    for name, value in medians(tree).items():
        if value > limits[name]:
            shown = name.replace("_", " ")
            tree.report(RATCHET, 1, "median", f"{shown} is {value:g}, held at {limits[name]:g}")


def unused_modules(tree: Tree) -> list[str]:
    used = set(ENTRY_POINTS)
    for module in tree.modules.values():
        used.update(target for target, _ in module.imports if target != module.name)
        for text in strings_of(module):
            # Lazy commands name their modules in strings, whole or up to the last dot.
            used.update(n for n in tree.modules if n == text or is_prefix(text, n))
    return [n for n, m in tree.modules.items() if n not in used and not m.is_package]


def is_prefix(text: str, name: str) -> bool:
    return text.endswith(".") and name.startswith(text)


def untested_modules(tree: Tree) -> list[str]:
    return [
        name
        for name, module in tree.modules.items()
        if owes_test(module) and not mirror(tree, module).exists() and not has_test(tree, module)
    ]


def has_test(tree: Tree, module: Module) -> bool:
    """Whether a test file of the mirrored folder imports the module.

    A module with several subjects has a test file for each, named after the subject.
    """
    folder = mirror(tree, module).parent
    package, _, base = module.name.rpartition(".")
    imports = (f"\nfrom {module.name} import ", f"\nfrom {package} import {base}")
    return any(
        wanted in text for text in map(read_once, folder.glob("test_*.py")) for wanted in imports
    )


@functools.cache
def read_once(path: Path) -> str:
    """The text of a file that several modules ask for."""
    return path.read_text(encoding="utf-8")


def owes_test(module: Module) -> bool:
    """Tables of constants and mere declarations have no behaviour to test."""
    if module.is_package or not module.package:
        return False
    return len(module.code_lines) >= TEST_OWED_FROM and any(functions_of(module))


def mirror(tree: Tree, module: Module) -> Path:
    *folders, name = module.parts
    return tree.root.joinpath("tests", *folders, f"test_{name}.py")


def check_listed(tree: Tree) -> None:
    """The two rules whose exceptions stand, by name, in the ratchet."""
    for rule, names in listed(tree).items():
        excused = set(tree.excused(rule))
        for name in names - excused:
            module = tree.modules[name]
            wanted = mirror(tree, module).relative_to(tree.root).as_posix()
            says = "nobody imports it" if rule == "unused" else f"wants {wanted}, or one beside it"
            tree.report(module.path, 1, rule, says)
        for name in excused - names:
            tree.report(RATCHET, 1, "stale", f"{rule} no longer needs {name}")


def listed(tree: Tree) -> dict[str, set[str]]:
    return {"unused": set(unused_modules(tree)), "untested": set(untested_modules(tree))}


def check_text(tree: Tree) -> None:
    for path in text_files(tree):
        shown = path.relative_to(tree.root).as_posix()
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            for rule, pattern in (("path", MACHINE_PATH), ("unfinished", UNFINISHED)):
                if found := pattern.search(line):
                    tree.report(shown, number, rule, f"'{found[0]}' must not stand here")


def check_words(tree: Tree) -> None:
    for module in tree.all_modules():
        seen: set[tuple[int, str]] = set()
        for name, line in names_given(module):
            words = {word.lower() for word in WORD.findall(name)}
            for word in words & RETIRED.keys():
                if name not in KEPT_NAMES and (line, word) not in seen:
                    seen.add((line, word))
                    says = f"'{word}' in {name}: say {RETIRED[word]}"
                    tree.report(module.path, line, "word", says)


def check_splats(tree: Tree) -> None:
    for module in tree.all_modules():
        for part in ast.walk(module.tree):
            if isinstance(part, ast.Starred) and isinstance(part.value, ast.Tuple | ast.List):
                tree.report(module.path, part.lineno, "splat", "write the values without *( )")


def check_late_binding(tree: Tree) -> None:
    """Functions that are put into an attribute of another object."""
    for module in tree.all_modules():
        functions = {
            node.name
            for node in ast.walk(module.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Assign) and is_function(node.value, functions):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and dotted_name(target.value) != "self":
                        says = f"{ast.unparse(target)} gets a function from outside"
                        tree.report(module.path, node.lineno, "late-binding", says)


def is_function(node: ast.expr, functions: set[str]) -> bool:
    """Whether the value is a lambda, or a method of `self` that the module defines."""
    if isinstance(node, ast.Attribute):
        return dotted_name(node.value) == "self" and node.attr in functions
    return isinstance(node, ast.Lambda)


def check_unique(tree: Tree) -> None:
    classes: dict[str, str] = {}
    modules: dict[str, str] = {}
    for module in tree.all_modules():
        base = module.path.rpartition("/")[2].removesuffix(".py")
        if base not in SHARED_MODULES and (first := modules.setdefault(base, module.path)):
            if first != module.path:
                tree.report(module.path, 1, "unique", f"{first} has this name, too")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED:
                first = classes.setdefault(node.name, module.path)
                if first != module.path:
                    tree.report(module.path, node.lineno, "unique", f"{node.name} is in {first}")


def names_given(module: Module) -> Iterator[tuple[str, int]]:
    """The names of the module, and of all that it defines, assigns or takes."""
    for part in module.parts:
        yield part, 1
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def check_citations(tree: Tree) -> None:
    paths = [
        path.relative_to(tree.root).as_posix()
        for path in text_files(tree)
        if path.suffix in (".py", ".md") and not path.is_relative_to(tree.root / ".venv")
    ]
    ends = {"/".join(path.split("/")[at:]) for path in paths for at in range(path.count("/") + 1)}
    for path in text_files(tree):
        shown = path.relative_to(tree.root).as_posix()
        if path.suffix not in (".md", ".py") or shown.startswith("tests/scripts/"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for cited in CITED.findall(line) + CITED_PAGE.findall(line):
                if cited not in ends and cited not in CITED_EXAMPLES:
                    tree.report(shown, number, "cite", f"there is no {cited}")


def text_files(tree: Tree) -> Iterator[Path]:
    folders = ("src", EXAMPLES, "tests", "scripts", "bench", "sim", "chaos", "docs", ".ci")
    for pattern in ("*.py", *TEXT_FILES):
        found = list(tree.root.glob(pattern))
        for folder in folders:
            found.extend((tree.root / folder).rglob(pattern))
        yield from (p for p in sorted(set(found)) if p.is_file() and "node_modules" not in p.parts)


CHECKS: tuple[Callable[[Tree], None], ...] = (
    check_layers,
    check_cycles,
    check_package_cycles,
    check_colour,
    check_names,
    check_sizes,
    check_medians,
    check_listed,
    check_text,
    check_words,
    check_splats,
    check_late_binding,
    check_private,
    check_unique,
    check_citations,
)


def check_tree(root: Path) -> list[Finding]:
    return check_all(read_tree(root))


def check_all(tree: Tree) -> list[Finding]:
    for check in CHECKS:
        check(tree)
    return sorted(set(tree.findings))


# The ratchet ---------------------------------------------------------------------------------


def tighten(root: Path) -> dict[str, object]:
    """Write the ratchet down to what the tree reaches now; never up, nor below the house rule."""
    tree = read_tree(root)
    now, limits = medians(tree), median_limits(tree)
    fresh: dict[str, object] = {k: max(v, min(limits[k], now[k])) for k, v in MEDIANS.items()}
    for rule, names in listed(tree).items():
        fresh[rule] = sorted(names.intersection(tree.excused(rule)))
    if fresh != tree.ratchet:
        (root / RATCHET).write_text(json.dumps(fresh, indent=2) + "\n")
    return fresh


def explain(rule: str) -> int:
    if rule not in RULES:
        print(f"tidy: no rule '{rule}'; there are: {', '.join(sorted(RULES))}", file=sys.stderr)
        return 2
    print(f"{rule}: {RULES[rule]}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tidy", description="Check the house rules.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--explain", metavar="RULE", help="say why a rule exists")
    parser.add_argument("--tighten", action="store_true", help="lower the ratchet, then check")
    options = parser.parse_args(arguments)
    if options.explain:
        return explain(options.explain)
    if options.tighten:
        tighten(options.root)
    tree = read_tree(options.root)
    findings = check_all(tree)
    for finding in findings:
        print(finding)
    figures = medians(tree)
    print(
        f"tidy: {len(findings)} findings; file median {figures['file_median']:g},"
        f" function median {figures['function_median']:g} code lines"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
