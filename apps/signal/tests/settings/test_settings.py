"""signal.toml: what it says, and every way in which it can be wrong."""

from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signal_feeds.errors import BadSettings, BadSource
from signal_feeds.records import Hints, Source
from signal_feeds.settings import TEMPLATE, Settings, checked_name, rate, read_settings

UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def settings(folder, text):
    (folder / "signal.toml").write_text(text, "utf-8")
    return read_settings(folder)


def test_a_mark_of_utf_8_at_the_beginning_is_none_of_the_settings(tmp_path):
    (tmp_path / "signal.toml").write_text("jobs = 3\n", "utf-8-sig")
    assert read_settings(tmp_path).jobs == 3


def complaint(folder, text):
    with pytest.raises(BadSettings) as caught:
        settings(folder, text)
    path = str(folder / "signal.toml")
    assert str(caught.value).startswith(path)
    return str(caught.value).removeprefix(path)


def source(id, url="https://example.org/feed"):
    blank: dict[str, Any] = dict.fromkeys(Source.__struct_fields__)
    return Source(**blank | {"id": id, "url": url, "hints": Hints()})


def test_without_a_file_all_is_default(tmp_path):
    assert read_settings(tmp_path) == Settings()
    assert [found.id for found in Settings().declared()] == [
        "fixture-atom", "fixture-json", "fixture-rss", "github-blog",
    ]  # fmt: skip


def test_what_init_writes_says_the_defaults(tmp_path):
    assert settings(tmp_path, TEMPLATE) == Settings()


def test_what_init_writes_shows_a_source_that_can_be_switched_on(tmp_path):
    shown = TEMPLATE[TEMPLATE.index("# [sources") :].replace("# ", "", 4).replace("\n# ", "\n")
    named = settings(tmp_path, TEMPLATE + shown).named["example"]
    assert (named.url, named.interval_s, named.spacing_ms, named.group) == (
        "https://example.org/feed.xml", 7_200, 5_000, "example.org",
    )  # fmt: skip


def test_every_setting_is_read(tmp_path):
    """Rule configuration: interval, contact, allow_net, language, interval and spacing of a source, built-in ones."""
    found = settings(
        tmp_path,
        """
        interval = "1h30m"
        contact = "https://me.example/feeds"
        allow_net = ["192.168.0.0/16", "::1"]
        language = "ru"
        jobs = 4
        robots = true
        keep_approved = true
        [builtin]
        github-blog = false
        [sources.news]
        url = "HTTPS://News.Example:443/all.xml#top"
        interval = "2h"
        spacing = "0s"
        """,
    )
    assert (found.interval_s, found.contact, found.language, found.jobs) == (
        5_400, "https://me.example/feeds", "ru", 4,
    )  # fmt: skip
    assert found.allow_net == (ip_network("192.168.0.0/16"), ip_network("::1/128"))
    assert found.robots
    assert found.keep_approved
    assert [(one.id, one.url, one.kind, one.origin) for one in found.declared()][-1] == (
        "news", "https://news.example/all.xml", "http", "toml",
    )  # fmt: skip
    assert "github-blog" not in [one.id for one in found.declared()]
    assert found.interval_of(source("news")) == 7_200
    assert found.interval_of(source("another")) == 5_400
    assert found.rates() == {"news.example": None}


def test_an_added_source_may_have_an_interval_here(tmp_path):
    found = settings(tmp_path, '[sources.mine]\ninterval = "6h"')
    assert found.interval_of(source("mine")) == 21_600
    assert "mine" not in [one.id for one in found.declared()]


def test_the_spacing_of_a_group_is_the_widest_its_sources_ask_for(tmp_path):
    """Acceptance 12: settable per source, and for hosts that share a limit."""
    found = settings(
        tmp_path,
        """
        [sources.a]
        url = "https://x.example/a"
        spacing = "5s"
        [sources.b]
        url = "https://x.example/b"
        spacing = "0s"
        [sources.c]
        url = "https://c.x.example/c"
        spacing = "10s"
        group = "X.example"
        [sources.d]
        url = "https://d.example/"
        [sources.github-blog]
        spacing = "1m"
        """,
    )
    assert found.rates() == {"x.example": "6/m", "github.blog": "1/m"}
    assert found.group_of("c", "https://c.x.example/c") == "x.example"
    assert found.group_of("d", "https://d.example/") == "d.example"
    assert found.group_of("of nobody", "https://e.example/") == "e.example"


@given(st.integers(1, 3_600_000))
def test_a_rate_is_never_faster_than_its_spacing_and_hardly_slower(spacing_ms):
    count, unit = str(rate(spacing_ms)).split("/")
    apart = UNIT_MS[unit] // int(count)
    assert spacing_ms <= apart
    assert apart - spacing_ms <= spacing_ms**2 / (86_400_000 - spacing_ms) + 1


WRONG = [
    ("interval = 30", ': interval must be a duration in quotes, like "30m", not 30'),
    ("interval = 2026-12-01T10:00:00", 'must be a duration in quotes, like "30m", not 2026-12-01 10:00:00'),
    ('interval = "half an hour"', "interval: can't read 'half an hour' as a duration; write it like"),
    ('interval = "-5m"', "can't read '-5m'"),
    ('interval = "1.5h"', "can't read '1.5h'"),
    ('interval = ""', "can't read ''"),
    ('interval = "5s"', "interval must be from 1m to 30d, not '5s'"),
    ('interval = "31d"', "interval must be from 1m to 30d, not '31d'"),
    ('intervall = "1h"', "there is no setting intervall; did you mean interval?"),
    ('zzz = "1h"', "there is no setting zzz; there are interval, contact,"),
    ("contact = false", "contact must be a text in quotes"),
    ('contact = "me"', 'contact must be like "https://example.org/about" or "you@example.org"'),
    ('contact = "https://a.example/\\r\\nX: y"', "contact must be like"),
    ('contact = "a(b)@c"', "contact must be like"),
    ('allow_net = "10.0.0.0/8"', "allow_net must be a list"),
    ("allow_net = [10]", "allow_net must be a text in quotes"),
    ('allow_net = ["home"]', "allow_net: 'home' is no network; write one like"),
    ('allow_net = ["192.168.1.7/24"]', 'for all of it write "192.168.1.0/24"'),
    ('allow_net = ["0.0.0.0/0"]', "'0.0.0.0/0' is too much to allow at once: /8 is the widest"),
    ('allow_net = ["::/0"]', "too much"),
    ('language = "de"', "language must be one of en, ru, not 'de'"),
    ("jobs = true", "jobs must be a whole number, not true"),
    ("jobs = 0", "jobs must be from 1 to 1000, not 0"),
    ("jobs = 16.0", "jobs must be a whole number, not 16.0"),
    ('robots = "yes"', "robots must be true or false, not 'yes'"),
    ("[builtin]\ngithub = false", "there is no setting builtin.github; did you mean builtin.github-blog?"),
    ("[builtin]\ngithub-blog = 0", "builtin.github-blog must be true or false, not 0"),
    ("builtin = false", "builtin must be a table"),
    ("[sources]\nx = 1", "sources.x must be a table"),
    ("[[sources]]\nx = 1", "sources must be tables"),
    ('[sources.x]\nuri = "https://a.example/"', "there is no setting sources.x.uri; did you mean sources.x.url?"),
    ('[sources.x]\nurl = "ftp://a.example/"', "sources.x.url: "),
    ('[sources.x]\nurl = ""', "sources.x.url: the URL is empty"),
    ('[sources.x]\nspacing = "5s"', "sources.x.spacing counts by host: add its url, or group"),
    ('[sources.x]\nspacing = "2h"\nurl = "https://a.example/"', "sources.x.spacing must be at most 1h"),
    ('[sources.x]\ngroup = " "', "sources.x.group must be the name of a host"),
    ('[sources."a b"]\ninterval = "1h"', "'a b' can't be a source's name"),
    ('[sources.github-blog]\nurl = "https://a.example/"', "a source that comes with Signal"),
    (
        '[sources.x]\nurl = "https://a.example/"\n[sources.y]\nurl = "http://A.example"',
        "sources.y.url is the feed of x already",
    ),
    ('[sources.x]\nurl = "http://github.blog/feed"', "is the feed of github-blog already"),
    ("interval = ", " isn't TOML: "),
]


@pytest.mark.parametrize(("text", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named_with_its_key(text, words, tmp_path):
    """Rule configuration: unknown keys name the nearest right one."""
    assert words in complaint(tmp_path, text)


def test_a_wrong_line_of_toml_is_named(tmp_path):
    assert "line 2" in complaint(tmp_path, 'interval = "1h"\ncontact = me')


def test_another_encoding(tmp_path):
    (tmp_path / "signal.toml").write_bytes('contact = "привет"'.encode("cp1251"))
    with pytest.raises(BadSettings, match="UTF-8"):
        read_settings(tmp_path)


def test_a_folder_in_the_place_of_the_file(tmp_path):
    (tmp_path / "signal.toml").mkdir()
    with pytest.raises(BadSettings, match="can't be read"):
        read_settings(tmp_path)


@pytest.mark.parametrize("name", ["a", "example.org", "habr-лучшее", "x" * 100, "news:all", "c++"])
def test_a_good_name(name):
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", "-x", "--once", "@x", "a b", "a\nb", "x" * 101, "../x", "a/b", "a\u202eb", "_a"])
def test_a_bad_name(name):
    with pytest.raises(BadSource):
        checked_name(name)
