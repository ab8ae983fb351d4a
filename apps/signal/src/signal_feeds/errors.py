"""What a person did wrong or can't have, in one tree; the command shows the message and nothing else.

SignalError
├── BadSettings      signal.toml says what can't be
├── BadSource        not a URL, a name in use, a source that is there already
├── UnknownSource    no source has this name
├── UnknownEntry     no entry has this number
├── BadFingerprint   not 12 to 64 hex digits
├── Changed          an approval of what isn't there any more
├── NothingAsked     a search without a word in it
├── Unreadable       a file that isn't what it should be
├── Unwritable       a file or folder that can't be written
├── NotYet           asked for sooner than is polite
├── CannotServe      a host or port on which nobody can listen
└── NotAFolder       there is no signal.db here, or none can be made
"""

from datetime import datetime
from typing import Any

from signal_feeds.texts import Language, say


class SignalError(Exception):
    """The root. The message says what happened, to what, and what to do: a key of the texts, without `error.`, and its
    values. In English as str(), in either language as in_words()."""

    def __init__(self, key: str, **values: Any) -> None:
        self.key, self.values = f"error.{key}", values
        super().__init__(self.in_words("en"))

    def in_words(self, lang: Language) -> str:
        """The message in this language."""
        return say(lang, self.key, **self.values)


class BadSettings(SignalError):
    """signal.toml says what can't be, perhaps of the language too: English alone."""

    def __init__(self, text: str) -> None:
        super().__init__("settings", text=text)


class BadSource(SignalError):
    """Not a URL, a name in use, a source that is there already."""


class UnknownSource(SignalError):
    """No source has this name."""


class UnknownEntry(SignalError):
    """No entry has this number."""


class BadFingerprint(SignalError):
    """Not 12 to 64 hex digits."""


class Changed(SignalError):
    """The fingerprint isn't that of the entry as it is now; nothing was decided.

    `seen` is the revision that it is of, None if the entry never had such a one; `now` is the current revision.
    """

    def __init__(self, key: str, *, entry: int, seen: int | None, now: int) -> None:
        super().__init__(key, id=entry)
        self.entry, self.seen, self.now = entry, seen, now


class NothingAsked(SignalError):
    """A search without a word in it."""


class Unreadable(SignalError):
    """A file that isn't what it should be, or is too large."""


class Unwritable(SignalError):
    """A file or folder can't be written; nothing was changed."""


class NotYet(SignalError):
    """A refresh was asked for sooner than is polite; it will be allowed at `at`, UTC ms."""

    def __init__(self, source: str, at: int) -> None:
        when = datetime.fromtimestamp(at / 1000).astimezone()
        super().__init__("source.early", name=source, when=f"{when:%Y-%m-%d %H:%M:%S %Z}")
        self.source, self.at = source, at


class CannotServe(SignalError):
    """A host or port on which nobody can listen."""


class NotAFolder(SignalError):
    """There is no signal.db here, or none can be made."""
