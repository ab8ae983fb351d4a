"""Rules configuration, removed source, fixtures, order, output; acceptance 13."""

import msgspec
import pytest

from apps.signal.tests.behaviours import answer, conditional, feed, redirect
from apps.signal.tests.rules.conftest import QUIET, World
from apps.signal.tests.samples import DAY, MINUTE
from signal_feeds.collecting import Line
from signal_feeds.errors import BadSource

SAME = conditional(feed(1), etag='"1"')
FIXTURES = ["fixture-atom", "fixture-json", "fixture-rss"]


def test_fixtures_come_with_it(world: World) -> None:
    """Rules fixtures and order: one RSS, one Atom, one JSON feed; github-blog is there as an HTTP source."""
    world.write("[builtin]\ngithub-blog = true\n")
    world.begin()
    assert [source.id for source in world.signal.store.sources()] == [*FIXTURES, "github-blog"]
    world.signal.nd.pause(queue="http")
    world.sandbox.drain()
    assert [line.source for line in world.lines] == FIXTURES  # all due in one moment: rule order, then source id
    for line in world.lines:
        assert (line.status, line.reason) == (0, None)
        assert line.fresh > 0
    assert {line["status"] for line in world.attempts("fixture-rss")} == {None}  # nobody asked by HTTP
    world.sandbox.advance("1h 1s")  # the ttl of the RSS one is an hour
    again = world.lines[3:]
    assert {line.source for line in again} == set(FIXTURES)
    assert {(line.status, line.fresh, line.changed) for line in again} == {(0, 0, 0)}


def test_an_interval_of_its_own(world: World) -> None:
    """Rule configuration: per-source interval."""
    world.write('interval = "1h"\n[sources.ada]\ninterval = "3h"\n' + QUIET)
    world.begin()
    world.put("ada", SAME)
    world.put("eve", SAME, address="127.0.0.2")
    assert (world.wait_s("ada"), world.wait_s("eve")) == (3 * 3600, 3600)


def toml(world: World, name: str = "ada") -> str:
    return f'{QUIET}\n[sources.{name}]\nurl = "{world.server.url("/" + name)}"\n'


def restarted(world: World, settings: str) -> None:
    """The same file under other settings."""
    from signal_feeds.settings import read_settings

    world.write(settings)
    world.signal.settings = read_settings(world.folder)
    world.signal.install()


def test_a_source_that_is_no_longer_named_is_orphaned(world: World) -> None:
    """Rule removed source: shown as orphaned; the others go on, and it does when it is named again."""
    world.server.put("/ada", SAME)
    world.server.put("/eve", SAME)
    both = toml(world) + toml(world, "eve").removeprefix(QUIET)
    restarted(world, both)
    world.sandbox.advance("31m")
    restarted(world, toml(world))
    world.sandbox.advance("1d")
    assert [world.row(name).orphaned for name in ("ada", "eve")] == [False, True]
    assert (len(world.seen("ada")) > 40, len(world.seen("eve"))) == (True, 1)
    restarted(world, both)
    assert not world.row("eve").orphaned
    world.sandbox.drain()
    assert len(world.seen("eve")) == 2


@pytest.mark.parametrize("paused", [True, False])
def test_a_pause_outlives_being_orphaned(world: World, paused: bool) -> None:
    """Rule removed source: what a person paused stays paused when it is named again; what nobody paused goes on."""
    world.server.put("/ada", SAME)
    restarted(world, toml(world))
    task = world.signal.nd.get("collect", "ada")
    assert task is not None
    assert not paused or task.pause()
    for _ in range(2):
        restarted(world, QUIET)  # again: nothing changes
    assert world.row("ada").orphaned
    restarted(world, toml(world))
    assert not world.row("ada").orphaned
    world.sandbox.advance("1d")
    assert (world.seen("ada") == []) == paused


def test_a_start_that_was_cut_off_between_the_mark_and_the_pause_is_made_up_for(world: World) -> None:
    """Rule removed source: it rests whatever happened to the start that noticed."""
    world.server.put("/ada", SAME)
    restarted(world, toml(world))
    with world.signal.nd.transaction() as tx:
        tx.execute("UPDATE source SET orphaned = 1 WHERE id = 'ada'")
    restarted(world, QUIET)
    world.sandbox.advance("1d")
    assert world.seen("ada") == []
    restarted(world, toml(world))
    world.sandbox.drain()
    assert len(world.seen("ada")) == 1


def test_a_start_changes_nothing_of_a_source_that_is_named_as_before(world: World) -> None:
    """Acceptance 1 and 4: a restart never re-polls, and leaves the validators."""
    world.server.put("/ada", SAME)
    restarted(world, toml(world))
    world.sandbox.advance("31m")
    before = world.row("ada"), world.due("ada")
    restarted(world, toml(world))
    assert (world.row("ada"), world.due("ada")) == before
    world.until_due("ada")
    assert world.lines[-1].status == 304


@pytest.mark.parametrize("orphaned", [True, False], ids=["after a while", "at once"])
@pytest.mark.parametrize("paused", [True, False], ids=["paused", ""])
def test_a_source_with_another_name_in_the_settings_goes_on(world: World, orphaned: bool, paused: bool) -> None:
    """Rule removed source, acceptance 1 and 4: it was refused as its own twin, and no worker started any more."""
    world.server.put("/ada", SAME)
    restarted(world, toml(world))
    world.sandbox.advance("31m")
    before, due, task = world.row("ada"), world.due("ada"), world.signal.nd.get("collect", "ada")
    assert task is not None
    assert not paused or task.pause()
    if orphaned:
        restarted(world, QUIET)
    renamed = toml(world).replace("sources.ada", "sources.eve")
    for _ in range(2):
        restarted(world, renamed)
    assert [source.id for source in world.signal.store.sources()] == ["eve"]
    assert world.row("eve") == msgspec.structs.replace(before, id="eve")
    world.sandbox.advance("1s")
    assert len(world.seen("ada")) == 1
    after = world.signal.nd.get("collect", "eve")
    assert after is not None
    assert (task.state, after.state) == ("cancelled", "held" if paused else "waiting")
    if not paused:
        assert world.due("eve") == due
        world.until_due("eve")
        assert world.lines[-1].status == 304
    restarted(world, toml(world))  # and back
    assert [source.id for source in world.signal.store.sources()] == ["ada"]
    back = world.signal.nd.get("collect", "ada")
    assert back is not None
    assert back.state == ("held" if paused else "waiting")


def test_a_name_does_not_take_the_feed_of_one_that_is_named(world: World) -> None:
    """Bad input: a duplicate source, added by a person or named in the settings."""
    world.put("ada", SAME)
    with pytest.raises(BadSource, match="it is the source 'ada'"):
        restarted(world, toml(world).replace("sources.ada", "sources.eve"))
    assert [source.id for source in world.signal.store.sources()] == ["ada"]


def test_another_url_in_the_settings_is_a_new_source_under_the_old_name(world: World) -> None:
    """Rule configuration, acceptance 1: its validators were another's; the entries stay."""
    world.server.put("/ada", answer(b"", 404))
    restarted(world, toml(world))
    world.sandbox.advance("2h")
    world.server.put("/new", SAME)
    restarted(world, toml(world).replace("/ada", "/new"))
    assert world.due("ada") <= world.now() + 30 * MINUTE
    world.sandbox.advance("30m")
    row = world.row("ada")
    assert (row.url, row.failures, row.last_error) == (world.server.url("/new"), 0, None)
    assert [one.header("if-none-match") for one in world.seen("new")] == [None]


def test_what_a_page_offered_is_forgotten_with_its_url(world: World) -> None:
    """Bad input: a page in the settings; once the feed that it offered stands there, nothing speaks of the page."""
    page = b'<link rel="alternate" type="application/rss+xml" href="/news.xml">'
    world.server.put("/ada", answer(page, content_type="text/html"))
    restarted(world, toml(world))
    world.sandbox.advance("31m")
    assert world.query("SELECT * FROM offer") != []
    world.server.put("/news.xml", SAME)
    restarted(world, toml(world).replace("/ada", "/news.xml"))
    assert world.query("SELECT * FROM offer") == []


def test_first_requests_are_spread(world: World) -> None:
    """Acceptance 13: adding sources spreads the first requests over 30 min."""
    for number in range(60):
        world.signal.add(f"http://127.0.2.{number}/feed", f"s{number}")
    dues = sorted(world.due(f"s{number}") - world.now() for number in range(60))
    assert 0 <= dues[0] < 5 * MINUTE
    assert 25 * MINUTE < dues[-1] < 30 * MINUTE


def test_the_order_is_by_due(world: World) -> None:
    """Rule order: by due, then source id, where all are due at once."""
    for number in (3, 1, 2):
        world.put(f"s{number}", SAME, address=f"127.0.1.{number}", first=False)
    first = sorted(("s1", "s2", "s3"), key=lambda name: (world.due(name), name))
    world.sandbox.advance("1h", working=False)
    world.sandbox.drain()
    assert [line.source for line in world.lines] == first


def test_one_line_per_attempt(world: World) -> None:
    """Rule output: id, status, new entries; or id, failed, reason."""
    world.put("ada", answer(feed(2)), answer(b"", 404))
    world.until_due("ada")
    assert world.lines == [Line("ada", 200, 2, 0, None), Line("ada", 404, 0, 0, "http_missing")]


@pytest.mark.parametrize("twin", ["https://{host}/ada", "http://{host}/ada/", "HTTP://{host}/ada#x"])
def test_a_duplicate_is_refused(world: World, twin: str) -> None:
    """Bad input: a duplicate source, also by http/https."""
    world.server.put("/ada", SAME)
    world.signal.add("http://ada.example/ada", "ada")
    with pytest.raises(BadSource, match="is there already: it is the source 'ada'"):
        world.signal.add(twin.format(host="ada.example"))


def test_a_duplicate_by_a_redirect_is_shown(world: World) -> None:
    """Bad input: a duplicate source by redirect is shown as the same as the other one, and never moved onto it."""
    world.write('interval = "12h"\n' + QUIET)
    world.begin()
    world.put("eve", SAME)
    world.put("ada", redirect(301, "/eve"))
    world.sandbox.advance(5 * DAY / 1000)
    assert (world.row("ada").same_as, world.row("ada").url) == ("eve", world.row("ada").given)


def test_a_page_offers_its_feeds(world: World) -> None:
    """Bad input: a URL of a page without a feed: the links that it advertises are offered."""
    page = b'<html><head><link rel="alternate" type="application/rss+xml" title="News" href="/news.xml"></head></html>'
    world.put("ada", answer(page, content_type="text/html"))
    assert world.row("ada").last_error == "not_a_feed"
    assert [tuple(row) for row in world.query("SELECT url, title FROM offer")] == [
        (world.server.url("/news.xml"), "News")
    ]


def test_names(world: World) -> None:
    """Bad input: a name in use; without a name it is the host, and the host and a number."""
    assert world.signal.add("http://ada.example/1").id == "ada.example"
    assert world.signal.add("http://ada.example/2").id == "ada.example-2"
    with pytest.raises(BadSource, match=r"a source is called 'ada.example' already"):
        world.signal.add("http://ada.example/3", "ada.example")
