"""What scripts/tidy.py knows about the source tree: modules parsed, their imports, their names."""

import ast
import io
import json
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "epochmq"
EXAMPLES = "examples"
"""Sample applications: not a part of the product, but code that readers copy."""
HELPERS = ("sim", "chaos", "bench")
RATCHET = "scripts/tidy_ratchet.json"
BUILTINS = {"open", "eval", "exec"}


@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass
class Module:
    """One source file of the product or of an example, parsed."""

    path: str
    name: str
    tree: ast.Module
    code_lines: list[int]
    aliases: dict[str, str] = field(default_factory=dict)
    imports: list[tuple[str, int]] = field(default_factory=list)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.split(".")[1:])

    @property
    def package(self) -> str:
        """The first folder below the product's root; empty for a file directly in it."""
        return self.parts[0] if len(self.parts) > 1 or (self.parts and self.is_package) else ""

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    def within(self, *folders: str) -> bool:
        return any(f"/{PACKAGE}/{folder}/" in f"/{self.path}" for folder in folders)


@dataclass
class Tree:
    root: Path
    modules: dict[str, Module]
    """Of the product."""
    examples: dict[str, Module]
    helpers: dict[str, Module]
    """Of the simulator, the chaos programs and the benchmarks."""
    findings: list[Finding]
    ratchet: dict[str, object]

    def report(self, path: str, line: int, rule: str, message: str) -> None:
        self.findings.append(Finding(path, line, rule, message))

    def excused(self, rule: str) -> list[str]:
        names = self.ratchet.get(rule, [])
        return [str(name) for name in names] if isinstance(names, list) else []

    def all_modules(self) -> Iterator[Module]:
        """The modules of the product and of the examples."""
        yield from self.modules.values()
        yield from self.examples.values()

    def python_files(self, *folders: str) -> Iterator[Path]:
        for folder in folders:
            yield from sorted((self.root / folder).rglob("*.py"))


def code_lines_of(source: str, tree: ast.Module) -> list[int]:
    """Numbers of the lines that hold code: no blank line, comment or docstring."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    silent |= {tokenize.ENDMARKER, tokenize.ENCODING}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                lines.difference_update(range(node.body[0].lineno, end_of(node.body[0]) + 1))
    return sorted(lines)


def end_of(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def read_module(tree: Tree, path: Path, base: Path, into: dict[str, Module]) -> None:
    """Parse the file at `path` into `into`; its module's name begins below the folder `base`."""
    shown = path.relative_to(tree.root).as_posix()
    dotted = path.relative_to(base).with_suffix("").parts
    name = ".".join(dotted[:-1] if dotted[-1] == "__init__" else dotted)
    source = path.read_text(encoding="utf-8")
    try:
        parsed = ast.parse(source, shown)
    except SyntaxError as error:
        tree.report(shown, error.lineno or 1, "syntax", str(error.msg))
        return
    into[name] = Module(shown, name, parsed, code_lines_of(source, parsed))


def read_imports(tree: Tree, module: Module) -> None:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module.imports.append((alias.name, node.lineno))
                bound = alias.asname or alias.name.split(".")[0]
                module.aliases[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                module.aliases[alias.asname or alias.name] = full
                whole = full in tree.modules or full in tree.helpers or base == PACKAGE
                module.imports.append((full if whole else base, node.lineno))


def absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join(parts[:keep] + ([node.module] if node.module else []))


def read_tree(root: Path) -> Tree:
    ratchet_file = root / RATCHET
    ratchet = json.loads(ratchet_file.read_text()) if ratchet_file.exists() else {}
    tree = Tree(root, {}, {}, {}, [], ratchet)
    for path in tree.python_files(f"src/{PACKAGE}"):
        read_module(tree, path, root / "src", tree.modules)
    for path in tree.python_files(EXAMPLES):
        read_module(tree, path, root, tree.examples)
    for path in tree.python_files(*HELPERS):
        read_module(tree, path, root, tree.helpers)
    for module in (*tree.all_modules(), *tree.helpers.values()):
        read_imports(tree, module)
    return tree


def names_used(module: Module) -> Iterator[tuple[str, int]]:
    """Every outside name the module mentions, with import aliases resolved."""
    yield from module.imports
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno
        elif isinstance(node, ast.Name) and node.id in module.aliases.keys() | BUILTINS:
            yield module.aliases.get(node.id, node.id), node.lineno
        elif isinstance(node, ast.Attribute):
            dotted = dotted_name(node)
            head, _, tail = dotted.partition(".")
            if head in module.aliases:
                yield f"{module.aliases[head]}.{tail}", node.lineno


def dotted_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        head = dotted_name(node.value)
        return f"{head}.{node.attr}" if head else ""
    return node.id if isinstance(node, ast.Name) else ""


def is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the body is only a docstring or `...`, as in a Protocol."""
    return all(isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) for n in node.body)


def functions_of(module: Module) -> Iterator[tuple[str, int, int]]:
    """Name, line and number of body code lines of every function that does something."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_stub(node):
            start, end = node.body[0].lineno, end_of(node)
            yield node.name, node.lineno, sum(start <= n <= end for n in module.code_lines)


def strings_of(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith(f"{PACKAGE}."):
                yield node.value.split(":")[0]
