"""What keeps the tree tidy. A check takes the top of a tree and answers its offences, one line each."""

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

FILE_LIMIT = 500
FUNCTION_LIMIT = 50

# In two pieces, or this file would be an offence itself.
REGISTRY_HOST = re.compile(
    r"\b(?:pypi|python" + r"hosted|piwheels|anaconda)\.(?:python\.)?(?:org|com|io)\b", re.IGNORECASE
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|NotImplementedError)\b")
NOT_OURS = re.compile(r"\.git|\.venv|\.hypothesis|\.\w+_cache|__pycache__|build|dist")

SOURCES = ("src", "apps/signal/src")
"""Where the packages lie."""
PAGES = ("statements.sql", "caller.sql", "worker.sql", "limits.sql", "tx.sql", "marks.sql", "pages.sql")
"""Pages whose names are asked for as they stand."""
SQL_HOLDERS = {"sql", "_sql", "SQL"}
# `sql` may also be a plain string or the mapping itself.
METHODS = {*dir(str), *dir(dict)}
CLOCK_CALLS = {"now", "today", "utcnow"}


def files_from_500_lines(top: Path) -> list[str]:
    sizes = [(path, len(text.splitlines())) for source in SOURCES for path, text in texts(top / source)]
    return [f"{where(top, path)} has {size} lines" for path, size in sizes if size >= FILE_LIMIT]


def functions_from_50_lines(top: Path) -> list[str]:
    return [
        f"{where(top, path, node)} {node.name} has {code_lines(node)} lines"
        for source in SOURCES
        for path, tree in modules(top / source)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_lines(node) >= FUNCTION_LIMIT
    ]


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the function without its docstring, which nobody should shorten to pass this check."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return height(function) - (height(function.body[0]) if has_docstring else 0)


def height(statement: ast.stmt) -> int:
    return (statement.end_lineno or statement.lineno) - statement.lineno + 1


def unfinished_work(top: Path) -> list[str]:
    return [offence for source in SOURCES for offence in matches(top, source, UNFINISHED)]


def registry_hosts(top: Path) -> list[str]:
    return matches(top, ".", REGISTRY_HOST)


def impure_rules(top: Path) -> list[str]:
    """Imports that the contract `pure` forbids, and the clock that `datetime` hands out without any."""
    contract = next(c for c in pyproject(top)["tool"]["importlinter"]["contracts"] if c["id"] == "pure")
    forbidden = set(contract["forbidden_modules"])
    offences = []
    for name in contract["source_modules"]:
        base = top / "src" / name.replace(".", "/")
        files = [base.with_suffix(".py")] if base.with_suffix(".py").is_file() else sorted(base.rglob("*.py"))
        if not files:
            offences.append(f"pyproject.toml names {name}, which is not there")
        for path in files:
            for node in ast.walk(ast.parse(path.read_bytes())):
                found = [module for module in imported(node) if module.split(".")[0] in forbidden]
                offences += [f"{where(top, path, node)} imports {module}" for module in found]
                if isinstance(node, ast.Call) and reads_clock(node.func):
                    offences.append(f"{where(top, path, node)} calls {ast.unparse(node.func)}")
    return offences


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


def reads_clock(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in CLOCK_CALLS
        and last_name(function.value) in {"date", "datetime"}
    )


def sql_names(top: Path) -> list[str]:
    """Statements without a unique snake_case name, names nobody uses, and names that no page of the package has."""
    return [offence for source in SOURCES for offence in sql_names_below(top, top / source)]


def sql_names_below(top: Path, source: Path) -> list[str]:
    offences: list[str] = []
    named: dict[str, str] = {}
    for page in sorted(p for p in source.rglob("*.sql") if p.name in PAGES):
        on_page = set()
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            if not line.startswith("-- :name"):
                continue
            name = line.removeprefix("-- :name").strip()
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                offences.append(f"{where(top, page)}:{number} {name!r} is no snake_case name")
            elif name in on_page:
                offences.append(f"{where(top, page)}:{number} {name} is there twice")
            on_page.add(name)
            named.setdefault(name, f"{where(top, page)}:{number}")
    mentioned = set()
    for path, tree in modules(source):
        for node in ast.walk(tree):
            asked = asked_for(node)
            if asked and asked not in named and asked not in METHODS:
                offences.append(f"{where(top, path, node)} asks for {asked}, which no page has")
            # A name may be handed on as a string before it is looked up.
            mentioned.add(asked or (node.value if isinstance(node, ast.Constant) else None))
    return offences + [f"{place} {name} is never used" for name, place in named.items() if name not in mentioned]


def asked_for(node: ast.AST) -> str | None:
    """The statement's name in `sql["name"]`, `sql.name` and `sql.get("name")`, else None."""
    match node:
        case ast.Subscript(value=holder, slice=ast.Constant(value=str(name))):
            return name if last_name(holder) in SQL_HOLDERS else None
        case ast.Call(func=ast.Attribute(value=holder, attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name if last_name(holder) in SQL_HOLDERS else None
        case ast.Attribute(value=holder, attr=name):
            return name if last_name(holder) in SQL_HOLDERS else None
    return None


def decisions_without_heading(top: Path) -> list[str]:
    pages = sorted((top / "docs" / "decisions").rglob("*.md"))
    return [
        f"{where(top, p)} does not begin with its number as a heading"
        for p in pages
        if not p.read_text("utf-8").startswith(f"# {p.name[:4]} ")
    ]


def make_commands(top: Path) -> list[str]:
    """`make` commands in the documents that the Makefile does not know."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (top / "Makefile").read_text("utf-8"), re.MULTILINE))
    return [
        f"{where(top, path)} tells to run 'make {target}', which is no target"
        for path, text in texts(top)
        if path.suffix == ".md"
        for target in commands(text)
        if target not in targets
    ]


def commands(text: str) -> list[str]:
    """Targets of the `make` commands in a document: in code blocks, fenced or indented, and in code spans."""
    return re.findall(r"(?:^(?: {4}|\$ )?|`(?:\$ )?|&& )make ([a-z][\w-]*)(?=`|\s*(?:#|$| {2}|&&))", text, re.MULTILINE)


def untyped_package(top: Path) -> list[str]:
    marks = ("src/nextdue/py.typed", "apps/signal/src/signal_feeds/py.typed")
    return [f"{mark} is missing" for mark in marks if not (top / mark).is_file()]


CHECKS = [
    files_from_500_lines,
    functions_from_50_lines,
    unfinished_work,
    registry_hosts,
    impure_rules,
    sql_names,
    decisions_without_heading,
    make_commands,
    untyped_package,
]


def matches(top: Path, folder: str, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{where(top, path)}:{number} says {match.group()}"
        for path, text in texts(top / folder)
        for number, line in enumerate(text.splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not NOT_OURS.fullmatch(name))
        for path in (Path(here, name) for name in sorted(names)):
            if not path.is_file():
                continue
            try:
                text = path.read_bytes().decode("utf-8")
            except UnicodeDecodeError:
                continue
            if "\0" not in text:
                yield path, text


def modules(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path, text in texts(folder):
        if path.suffix == ".py":
            yield path, ast.parse(text)


def pyproject(top: Path) -> dict:
    return tomllib.loads((top / "pyproject.toml").read_text("utf-8"))


def last_name(expression: ast.expr) -> str | None:
    """The last name of a dotted expression: `sql` of `self.store.sql`."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else None


def where(top: Path, path: Path, node: ast.AST | None = None) -> str:
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(top)}:{line}" if line else str(path.relative_to(top))
