"""Reads a page of named SQL statements: each begins with a line `-- :name the_name`.

A line `-- :define word text` makes `{word}` stand for `text` in all that lies below it, there and in the pages
that are read together with this one. Words of all pages of a package are defined in its `words.sql`, if it has one.
"""

from functools import cache
from importlib import resources

WORDS = "words.sql"


@cache
def load(package: str, *pages: str) -> dict[str, str]:
    """The statements of some pages in a package, by name. Raises ValueError for a name used twice."""
    found: dict[str, str] = {}
    words: dict[str, str] = {}
    name = ""
    folder = resources.files(package)
    read = (WORDS, *pages) if folder.joinpath(WORDS).is_file() else pages
    for page, line in [(p, line) for p in read for line in folder.joinpath(p).read_text("utf-8").splitlines()]:
        if line.startswith("-- :name "):
            name = line.removeprefix("-- :name ").strip()
            if name in found:
                raise ValueError(f"{package}/{page}: two statements are called {name}")
            found[name] = ""
        elif line.startswith("-- :define "):
            word, text = line.removeprefix("-- :define ").strip().split(" ", 1)
            words[word] = _filled(text, words)
        elif name and not line.lstrip().startswith("--"):
            found[name] += line + "\n"
    return {key: _filled(text, words).strip().removesuffix(";") for key, text in found.items()}


def _filled(text: str, words: dict[str, str]) -> str:
    for word, meaning in words.items():
        text = text.replace("{" + word + "}", meaning)
    return text
