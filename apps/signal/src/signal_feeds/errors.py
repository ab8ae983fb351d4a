"""What a person did wrong or can't have, in one tree; the command shows the message and nothing else.

SignalError
├── BadSettings      signal.toml says what can't be
├── BadSource        not a URL, a name in use, a source that is there already
├── UnknownSource    no source has this name
├── UnknownEntry     no entry has this number
├── Changed          an approval of what isn't there any more
├── NotYet           asked for sooner than is polite
└── NotAFolder       there is no signal.db here, or none can be made
"""

from datetime import datetime


class SignalError(Exception):
    """The root. The message says what happened, to what, and what to do."""


class BadSettings(SignalError):
    """signal.toml says what can't be."""


class BadSource(SignalError):
    """Not a URL, a name in use, a source that is there already."""


class UnknownSource(SignalError):
    """No source has this name."""


class UnknownEntry(SignalError):
    """No entry has this number."""


class Changed(SignalError):
    """The fingerprint is of a text that isn't the entry's any more; nothing was decided."""


class NotYet(SignalError):
    """A refresh was asked for sooner than is polite; it will be allowed at `at`, UTC ms."""

    def __init__(self, source: str, at: int) -> None:
        when = datetime.fromtimestamp(at / 1000).astimezone()
        super().__init__(f"{source} may be asked again at {when:%Y-%m-%d %H:%M:%S %Z}, not sooner")
        self.source, self.at = source, at


class NotAFolder(SignalError):
    """There is no signal.db here, or none can be made."""
