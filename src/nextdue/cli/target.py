"""What a command works on: an application (`module:attribute`), a database, or NEXTDUE from the environment."""

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Collection
from pathlib import Path
from shlex import quote
from types import ModuleType, TracebackType

from nextdue.app import Nextdue
from nextdue.errors import BadDefinition, UnknownTask
from nextdue.sqlite.files import absolute
from nextdue.sqlite.store import SqliteStore

VARIABLE = "NEXTDUE"
DATABASE_ENDINGS = (".db", ".db3", ".sqlite", ".sqlite3")


class ImportFailed(Exception):
    """The user's module raised while it was imported; its traceback is already shown."""


class Target:
    """A file, and the application that declares its tasks if the command line named it."""

    def __init__(self, path: Path, app: Nextdue | None) -> None:
        self.path, self.app = path, app

    def open(self) -> SqliteStore:
        """A connection to the file. Raises StoreMissing: only the application creates it."""
        return SqliteStore(self.path, create=False)

    def look(self) -> SqliteStore:
        """A connection that only reads, so that looking at a backup doesn't change it. Raises StoreMissing."""
        return SqliteStore(self.path, create=False, look=True)


def pasteable(path: Path) -> str:
    """The file as a word of a command line, from here: for the commands that are shown to the user."""
    near = os.path.relpath(path)
    return quote(near if not near.startswith("..") and is_path(near) else str(path))


def find(word: str | None) -> Target:
    """The target that a word of the command line (None: the environment) means. Raises BadDefinition."""
    word = word or os.environ.get(VARIABLE)
    if not word:
        raise BadDefinition(
            f"which file? Give module:attribute (like shop:nd) or a database (like shop.db), or set {VARIABLE}"
        )
    if "://" in word:
        raise BadDefinition(f"{word.split('://')[0]}:// is not supported by this version; give the path of a file")
    if os.path.isdir(word) and os.sep in word:
        raise BadDefinition(f"{word} is a directory; give the database in it")
    if is_path(word):
        return Target(absolute(word), None)
    app = load(word)
    return Target(app.path, app)


def find_app(word: str | None) -> Nextdue:
    """The application that a word of the command line means. Raises BadDefinition."""
    word = word or os.environ.get(VARIABLE)
    if not word:
        raise BadDefinition(f"which application? Give module:attribute (like shop:nd), or set {VARIABLE}")
    if is_path(word):
        raise BadDefinition(f"{word} is a database; a worker needs the application's code: module:attribute")
    return load(word)


def is_path(word: str) -> bool:
    """Whether this word can only mean a database."""
    module = word.partition(":")[0]
    if module.endswith(".py"):
        return False
    return os.path.isfile(word) or word.endswith(DATABASE_ENDINGS) or os.sep in module


def looks_like_target(word: str) -> bool:
    """Whether this word is a target rather than a task's name, as far as its form tells."""
    return ":" in word or is_path(word) or word.endswith(".py")


def load(word: str) -> Nextdue:
    """Import an application: `module:attribute`, `file.py:attribute`; the attribute is `nd` by default."""
    name, _, attribute = word.partition(":")
    attribute = attribute or "nd"
    folder, name, file = _folder(name)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    fresh = name not in sys.modules
    module = _import(name, folder)
    if file is not None and not _is_from(module, file):
        raise BadDefinition(f"the name {name!r} is taken by {_origin(module)}; give the file {file} another name")
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise BadDefinition(f"{name} ({_origin(module)}) has no attribute {attribute!r}; {_offered(module)}")
        found = getattr(found, part)
    if not isinstance(found, Nextdue):
        kind = type(found).__name__
        raise BadDefinition(f"{name}:{attribute} is no Nextdue but has the type {kind}; {_offered(module)}")
    if fresh and found.caller.stored:
        print(
            f"nextdue: {_origin(module)} puts tasks while it is imported ({found.caller.stored} now, by this command); "
            'move that under: if __name__ == "__main__"',
            file=sys.stderr,
        )
    return found


def near(word: str, words: Collection[str]) -> str:
    """A hint for a word that isn't there: what comes near it, and what there is."""
    if not words:
        return "there are none"
    close = difflib.get_close_matches(word, words, 3)
    hint = f"did you mean {' or '.join(close)}? There are" if close else "there are"
    shown = sorted(words)
    more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
    return f"{hint} {', '.join(shown[:20])}{more}"


def known_name(name: str, names: Collection[str], where: object) -> str:
    """The name itself. Raises UnknownTask with a hint."""
    if name not in names:
        raise UnknownTask(f"no task is called {name!r} in {where}; {near(name, names)}")
    return name


def known_queue(queue: str, queues: Collection[str], where: object) -> str:
    """The queue itself. Raises UnknownTask with a hint."""
    if queue not in queues:
        raise UnknownTask(f"no task uses a queue {queue!r} in {where}; {near(queue, queues)}")
    return queue


def _folder(name: str) -> tuple[str, str, Path | None]:
    """The directory to import from, the module's name, and its file if that was named."""
    if not name.endswith(".py"):
        return os.getcwd(), name, None
    path = absolute(name)
    if not path.is_file():
        raise BadDefinition(f"there is no file {path}")
    return str(path.parent), path.stem, path


def _is_from(module: ModuleType, path: Path) -> bool:
    return getattr(module, "__file__", None) is not None and os.path.realpath(str(module.__file__)) == os.path.realpath(
        path
    )


def _origin(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "a module built into Python"


def _import(name: str, folder: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(exc.name + ".")):
            raise BadDefinition(
                f"there is no module {name!r} in {folder} (nor on the Python path); "
                "run this where the module lies, or give its file: path/to/shop.py:nd"
            ) from None
        failure: BaseException = exc
    except KeyboardInterrupt:
        raise
    except (TypeError, ValueError) as exc:
        if not all(part.isidentifier() for part in name.split(".")):
            raise BadDefinition(f"{name!r} can't be a module's name; write module:attribute, like shop:nd") from None
        failure = exc
    except BaseException as exc:  # SystemExit too: a script without `if __name__ == "__main__":`
        failure = exc
    _show(failure)
    raise ImportFailed(f"{name} can't be imported: {type(failure).__name__}: {failure}") from failure


def _show(failure: BaseException) -> None:
    """The traceback of the user's own code, without ours and importlib's frames above it."""
    ours = (__file__, importlib.__file__, "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
    frame: TracebackType | None = failure.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename in ours:
        frame = frame.tb_next
    traceback.print_exception(type(failure), failure, frame)


def _offered(module: ModuleType) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, Nextdue)]
    if not apps:
        return f"{module.__name__} holds no Nextdue at all; it needs a line like: nd = Nextdue(...)"
    return f"it holds {', '.join(f'{module.__name__}:{name}' for name in apps)}"
