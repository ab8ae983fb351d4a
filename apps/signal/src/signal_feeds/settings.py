"""signal.toml: how a folder's Signal behaves. What isn't written there has its default; without the file, all has."""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from signal_feeds import urls
from signal_feeds.errors import BadSettings, BadSource
from signal_feeds.records import Kind, Origin, Source
from signal_feeds.texts import LANGUAGES, Language

FILE, DATABASE = "signal.toml", "signal.db"
"""The names of the files in a folder."""
Network = IPv4Network | IPv6Network
INTERVAL_S = 1_800
MOST_JOBS = 1_000
SHORTEST_S, LONGEST_S = 60, 30 * 86_400
"""Between two requests of one source: nobody is asked every second, nor forgotten."""
SPACING_MS = 2_000
WIDEST_MS = 3_600_000
WIDEST_NETWORK = {4: 8, 6: 7}
"""Prefixes of the widest networks that may be allowed, those of 10.0.0.0/8 and fc00::/7: all is no list."""
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RATE_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAME = re.compile(r"[^\W_][\w.:+-]{0,99}")
_CONTACT = re.compile(r"[!-'*-~]{1,200}")

TEMPLATE = """\
# Settings of Signal in this folder. What is missing here has its default, which is what stands here now.
# A worker reads them when it starts.

# How often a source is asked: so long after the end of one attempt comes the next, later if its server wants that.
interval = "30m"

# Told to every server, so that its owner can write to you: an address of a page, or of mail.
contact = ""

# Networks beside the open internet that may be asked, such as "192.168.1.0/24" for a server at home.
allow_net = []

# The words of the commands and pages: en or ru.
language = "en"

# So many sources are asked at once, never two of one host.
jobs = 16

# Whether robots.txt is asked for and obeyed.
robots = false

# An approved entry that its publisher changes: true keeps it as it was approved until you decide, false withdraws it.
keep_approved = false

# Sources that come with Signal. The fixtures are files; the others are asked over the network.
[builtin]
fixture-rss = true
fixture-atom = true
fixture-json = true
github-blog = true

# A source of yours is a table like this; interval, spacing and group may be left out. Sources that `signal add` knows
# aren't here, but may get an interval here under their name.
# [sources.example]
# url = "https://example.org/feed.xml"
# interval = "2h"
# spacing = "5s"             # between two requests to its host; "0s": none. 2 s where nobody says another
# group = "example.org"      # sources of one group share the spacing and are asked one after another; else: the host
"""
"""What `signal init` writes."""


class Declared(NamedTuple):
    """A source that a program or a file names."""

    id: str
    url: str
    kind: Kind
    origin: Origin


BUILTIN = (
    Declared("fixture-atom", "fixture:atom.xml", "fixture", "builtin"),
    Declared("fixture-json", "fixture:feed.json", "fixture", "builtin"),
    Declared("fixture-rss", "fixture:rss.xml", "fixture", "builtin"),
    Declared("github-blog", "https://github.blog/feed/", "http", "builtin"),
)
"""By name: of sources that are due in one moment nextdue takes the one first that was added first."""


class Named(msgspec.Struct, frozen=True):
    """[sources.NAME]: of a source of its own if it has a URL, else of a built-in or added one."""

    url: str | None = None
    interval_s: int | None = None
    spacing_ms: int | None = None
    group: str | None = None


class Settings(msgspec.Struct, frozen=True):
    """What signal.toml says, checked."""

    interval_s: int = INTERVAL_S
    contact: str = ""
    allow_net: tuple[Network, ...] = ()
    language: Language = "en"
    jobs: int = 16
    robots: bool = False
    keep_approved: bool = False
    """A changed entry stays published as it was approved, instead of being withdrawn."""
    off: frozenset[str] = frozenset()
    """Built-in sources that are left out."""
    named: Mapping[str, Named] = {}

    def declared(self) -> list[Declared]:
        """The built-in sources that are on and those of signal.toml, in this order."""
        own = [Declared(id, named.url, "http", "toml") for id, named in self.named.items() if named.url is not None]
        return [source for source in BUILTIN if source.id not in self.off] + own

    def group_of(self, id: str, url: str) -> str:
        """By what the spacing of a source counts: its `group`, else the host of its URL."""
        named = self.named.get(id)
        return (named.group if named else None) or urls.host_of(url)

    def interval_of(self, source: Source) -> int:
        """How often it is asked, seconds."""
        named = self.named.get(source.id)
        return (named.interval_s if named else None) or self.interval_s

    def rates(self) -> dict[str, str | None]:
        """Of each group with a spacing of its own the widest its sources ask for, as a rate of nextdue; None: none.

        >>> Settings(named={"a": Named("https://a.example/", spacing_ms=5_000)}).rates()
        {'a.example': '12/m'}
        """
        widest: dict[str, int] = {}
        addresses = {source.id: source.url for source in BUILTIN}
        for id, named in self.named.items():
            if named.spacing_ms is not None:
                group = self.group_of(id, named.url or addresses.get(id, ""))
                widest[group] = max(widest.get(group, 0), named.spacing_ms)
        return {group: rate(spacing) for group, spacing in widest.items()}


def rate(spacing_ms: int) -> str | None:
    """A spacing as a rate of nextdue, exact or a little wider; None for none at all.

    >>> rate(2_000), rate(500), rate(7_000), rate(0)
    ('30/m', '2/s', '12342/d', None)
    """
    if spacing_ms == 0:
        return None
    fitting = [
        (size // (size // spacing_ms), size, unit) for unit, size in _RATE_UNITS_MS.items() if size >= spacing_ms
    ]
    _, size, unit = min(fitting)
    return f"{size // spacing_ms}/{unit}"


def duration_ms(text: str) -> int:
    """A duration as ms. Raises ValueError, which says how one is written.

    >>> duration_ms("1h30m"), duration_ms("0s")
    (5400000, 0)
    """
    parts = re.findall(r"(\d{1,9})\s*(ms|[smhd])", text)
    if not re.fullmatch(r"(\s*\d{1,9}\s*(ms|[smhd]))+\s*", text):
        raise ValueError(f'can\'t read {text!r} as a duration; write it like "90s", "30m", "1h30m" or "2d"')
    return sum(int(count) * _UNITS_MS[unit] for count, unit in parts)


def network(text: str) -> Network:
    """A network that may be asked though it isn't the open internet. Raises ValueError, which says what to write.

    >>> network("127.0.0.0/8"), network("::1")
    (IPv4Network('127.0.0.0/8'), IPv6Network('::1/128'))
    """
    try:
        found = ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f'{text!r} is no network; write one like "192.168.1.0/24" or "fd00::/8"') from None
    if "/" in text and str(found.network_address) != text.strip().partition("/")[0].lower():
        raise ValueError(f'{text!r} is an address within a network; for all of it write "{found}"')
    widest = WIDEST_NETWORK[found.version]
    if found.prefixlen < widest:
        raise ValueError(f"{text!r} is too much to allow at once: /{widest} is the widest; name the networks you mean")
    return found


def checked_name(text: str) -> str:
    """The name of a source as commands take it. Raises BadSource.

    >>> checked_name("habr-лучшее")
    'habr-лучшее'
    """
    if not _NAME.fullmatch(text) or not text.isprintable():
        raise BadSource("source.name", name=text)
    return text


def here() -> Path:
    """The folder that is meant where none is named: that of SIGNAL_FOLDER, else the current one."""
    return Path(os.environ.get("SIGNAL_FOLDER") or ".").absolute()


def read_settings(folder: Path) -> Settings:
    """The settings of this folder; the defaults where it has no signal.toml. Raises BadSettings."""
    path = folder / FILE
    try:
        raw = tomllib.loads(path.read_text("utf-8-sig"))  # some editors write a BOM
    except FileNotFoundError:
        return Settings()
    except UnicodeDecodeError:
        raise BadSettings(f"{path} isn't UTF-8; save it in that encoding") from None
    except tomllib.TOMLDecodeError as error:
        raise BadSettings(f"{path} isn't TOML: {error}") from None
    except OSError as error:
        raise BadSettings(f"{path} can't be read: {error.strerror}") from None
    try:
        return _settings(raw)
    except _Wrong as wrong:
        raise BadSettings(f"{path}: {wrong}") from None


class _Wrong(Exception):
    """A key and what is wrong with it."""


def _settings(raw: dict[str, Any]) -> Settings:
    _known(raw, _TOP, "")
    found = {field: read(raw[key], key) for key, (field, read) in _TOP.items() if key in raw}
    settings = Settings(**found)
    _no_twins(settings)
    return settings


def _known(table: Mapping[str, Any], keys: Collection[str], where: str) -> None:
    """Refuse a key that nobody knows, and name the nearest."""
    for key in table:
        if key not in keys:
            close = difflib.get_close_matches(key, keys, 1)
            hint = f"did you mean {where}{close[0]}?" if close else f"there are {', '.join(keys)}"
            raise _Wrong(f"there is no setting {where}{key}; {hint}")


def _typed(value: Any, key: str, kind: type, shown: str) -> Any:
    if type(value) is not kind:
        raise _Wrong(f"{key} must be {shown}, not {_written(value)}")
    return value


def _written(value: Any) -> str:
    """A value as it stands in the file, or nearly."""
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)


def _text(value: Any, key: str) -> str:
    text: str = _typed(value, key, str, 'a text in quotes, like "this"')
    return text


def _yes(value: Any, key: str) -> bool:
    yes: bool = _typed(value, key, bool, "true or false")
    return yes


def _duration(value: Any, key: str, least_ms: int, most_ms: int, shown: str) -> int:
    try:
        ms = duration_ms(_typed(value, key, str, 'a duration in quotes, like "30m"'))
    except ValueError as error:
        raise _Wrong(f"{key}: {error}") from None
    if not least_ms <= ms <= most_ms:
        raise _Wrong(f"{key} must be {shown}, not {value!r}")
    return ms


def _interval(value: Any, key: str) -> int:
    return _duration(value, key, SHORTEST_S * 1000, LONGEST_S * 1000, "from 1m to 30d") // 1000


def _spacing(value: Any, key: str) -> int:
    return _duration(value, key, 0, WIDEST_MS, "at most 1h")


def _contact(value: Any, key: str) -> str:
    text = _text(value, key).strip()
    if text and (not _CONTACT.fullmatch(text) or not re.match(r"https?://.|[^@/]+@[^@/]+$", text)):
        raise _Wrong(f'{key} must be like "https://example.org/about" or "you@example.org", not {text!r}')
    return text


def _networks(value: Any, key: str) -> tuple[Network, ...]:
    listed = _typed(value, key, list, 'a list, like ["192.168.1.0/24"]')
    try:
        return tuple(network(_text(one, key)) for one in listed)
    except ValueError as error:
        raise _Wrong(f"{key}: {error}") from None


def _language(value: Any, key: str) -> str:
    if _text(value, key) not in LANGUAGES:
        raise _Wrong(f"{key} must be one of {', '.join(LANGUAGES)}, not {value!r}")
    return str(value)


def _jobs(value: Any, key: str) -> int:
    jobs: int = _typed(value, key, int, "a whole number")
    if not 1 <= jobs <= MOST_JOBS:
        raise _Wrong(f"{key} must be from 1 to {MOST_JOBS}, not {jobs}")
    return jobs


def _off(value: Any, key: str) -> frozenset[str]:
    table = _typed(value, key, dict, "a table: [builtin]")
    _known(table, [source.id for source in BUILTIN], f"{key}.")
    return frozenset(id for id, on in table.items() if not _yes(on, f"{key}.{id}"))


def _named(value: Any, key: str) -> dict[str, Named]:
    tables = _typed(value, key, dict, "tables: [sources.NAME]")
    return {id: _one(id, table, f"{key}.{id}") for id, table in tables.items()}


def _one(id: str, value: Any, key: str) -> Named:
    table = _typed(value, key, dict, f"a table: [{key}]")
    try:
        checked_name(id)
    except BadSource as error:
        raise _Wrong(f"{key}: {error}") from None
    _known(table, _SOURCE, f"{key}.")
    found = {field: read(table[word], f"{key}.{word}") for word, (field, read) in _SOURCE.items() if word in table}
    named, builtin = Named(**found), any(source.id == id for source in BUILTIN)
    if named.url is not None and builtin:
        raise _Wrong(f"{key}.url: {id} is a source that comes with Signal; give yours another name")
    if named.spacing_ms is not None and named.url is None and named.group is None and not builtin:
        raise _Wrong(f"{key}.spacing counts by host: add its url, or group with the name of its host")
    return named


def _url(value: Any, key: str) -> str:
    try:
        return urls.checked(_text(value, key))
    except BadSource as error:
        raise _Wrong(f"{key}: {error}") from None


def _group(value: Any, key: str) -> str:
    text = _text(value, key).strip().lower()
    if not 1 <= len(text) <= 200 or not text.isprintable():
        raise _Wrong(f"{key} must be the name of a host, or one of yours, not {value!r}")
    return text


def _no_twins(settings: Settings) -> None:
    seen: dict[str, str] = {}
    for source in settings.declared():
        address = urls.address_of(source.url)
        if address in seen:
            raise _Wrong(f"sources.{source.id}.url is the feed of {seen[address]} already; keep one of them")
        seen[address] = source.id


_Readers = dict[str, tuple[str, Callable[[Any, str], Any]]]
_TOP: _Readers = {
    "interval": ("interval_s", _interval),
    "contact": ("contact", _contact),
    "allow_net": ("allow_net", _networks),
    "language": ("language", _language),
    "jobs": ("jobs", _jobs),
    "robots": ("robots", _yes),
    "keep_approved": ("keep_approved", _yes),
    "builtin": ("off", _off),
    "sources": ("named", _named),
}
_SOURCE: _Readers = {
    "url": ("url", _url),
    "interval": ("interval_s", _interval),
    "spacing": ("spacing_ms", _spacing),
    "group": ("group", _group),
}
