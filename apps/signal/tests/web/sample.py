"""A folder with all that a page may have to show: every state of a source, entries that fit nowhere, hostile text."""

from pathlib import Path

from apps.signal.tests.web.building import DAY, HOUR, MINUTE, NOW, Folder, item
from signal_feeds.reasons import Reason
from signal_feeds.records import Offer, Source
from signal_feeds.store import SQL

HOSTILE = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>'\x1b[31m\u202eevil{{7*7}}"
LONG_WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3
LONG_URL = "https://news.example/" + "a-very-long-path-without-any-place-to-break/" * 8 + "?q=" + "x" * 200

STORY = """<p>A river that was moved a hundred years ago is finding its old bed again, one flood at a time. The
engineers who measured it in spring speak of <em>patience</em>, the farmers of <a href="https://a.example/why">something
else</a>.</p>
<h2>What was measured</h2><ul><li>the speed of the water at eleven places</li><li>what it carries</li></ul>
<blockquote><p>We drew a line, and the river read it as a suggestion.</p></blockquote>
<pre><code>level = baseline + sum(abs(a - b) for a, b in zip(observations_of_the_year, predictions_of_the_model))
</code></pre><p><img src="https://cdn.example/river.jpg" alt="The river at the old mill"></p>"""
WIDE = (
    "<table><tr>"
    + "".join(f"<th>Column number {n}</th>" for n in range(14))
    + "</tr><tr>"
    + "<td>1,234,567.89</td>" * 14
)
HEBREW = "<p>הנהר שהוסט לפני מאה שנה מוצא שוב את מיטתו הישנה, שיטפון אחר שיטפון.</p>"


def sample(path: Path) -> Folder:
    """The folder, as it is at NOW."""
    folder = Folder(path)
    _in_order(folder)
    _in_trouble(folder)
    _hostile(folder)
    return folder


def _in_order(folder: Folder) -> None:
    river = folder.add("river-notes", "https://a.example/feed.xml", due=NOW + 12 * MINUTE)
    texts = [
        item("1", "The river finds its old bed", "A river that was moved a hundred years ago.", html=STORY,
             link="https://a.example/1", author="Ada Marsh"),
        item("2", "Eleven places to stand in the water", "Where the measuring is done, and why there.",
             link="https://a.example/2"),
        item("3", "A mill without a wheel", "It is a museum now. " * 40, link="https://a.example/3"),
    ]  # fmt: skip
    folder.succeed(river, *texts, ended=NOW - 18 * MINUTE, title="River notes")
    changed = item("2", "Twelve places to stand in the water", "Where the measuring is done, how, and why there.",
                   link="https://a.example/2")  # fmt: skip
    for entry in (1, 2, 3):
        folder.decide(entry, "approved", at=NOW - 17 * MINUTE)
    folder.succeed(river, changed, ended=NOW - 16 * MINUTE, title="River notes")

    habr = folder.add("хабр", "https://habr.example/ru/rss", due=NOW + 2 * HOUR + 5 * MINUTE)
    russian = item("1", "Очередь задач в одном файле", "Как мы перестали бояться перезапусков и полюбили SQLite. " * 6,
                   link="https://habr.example/1", author="Мария Речная")  # fmt: skip
    folder.succeed(habr, russian, ended=NOW - 90 * MINUTE, title="Хабр: все статьи подряд")
    hebrew = folder.add("נהרות", "https://b.example/rss", due=NOW + 3 * DAY)
    folder.succeed(hebrew, item("1", "הנהר חוזר למיטתו הישנה", "הנהר שהוסט לפני מאה שנה", html=HEBREW),
                   ended=NOW - 26 * HOUR, title="נהרות וגשרים")  # fmt: skip
    for entry in (4, 5):
        folder.decide(entry, "approved", at=NOW - 15 * MINUTE)
    fixture = folder.add("fixture-rss", "fixture:rss.xml", origin="builtin", kind="fixture", due=NOW + 29 * MINUTE)
    folder.succeed(fixture, item("1", "A rejected one", "Nothing to see."), ended=NOW - MINUTE, title="Ships with it")
    folder.decide(6, "rejected", at=NOW - 30_000)
    folder.add("new-one", "https://new.example/feed", due=NOW + 7 * MINUTE)


def _in_trouble(folder: Folder) -> None:
    down = folder.add("down-since-days", "https://down.example/feed", due=NOW + 55 * MINUTE)
    folder.succeed(down, item("1", "The last thing it said", "Then it went silent."), ended=NOW - 3 * DAY, title="Down")
    for hours in range(14, 0, -1):
        folder.fail(down, "http_server", status=503, ended=NOW - hours * HOUR)
    late = folder.add("overdue-one", "https://late.example/feed", due=NOW - 3 * HOUR)
    folder.succeed(late, item("1", "It waits", "For a worker."), ended=NOW - 4 * HOUR, title="It is late")
    page = folder.add("just-a-page", "https://page.example/", due=NOW + 10 * MINUTE)
    offers = (
        Offer("https://page.example/feed.atom", "Everything", "application/atom+xml"),
        Offer("https://page.example/comments?" + "very-long-name=" * 12, "Comments", "application/rss+xml"),
    )
    folder.fail(page, "not_a_feed", status=200, ended=NOW - 5 * MINUTE, offers=offers)
    folder.fail(folder.add("our-fault", "https://ours.example/", due=NOW + MINUTE), "store", ended=NOW - MINUTE)
    reasons: list[tuple[str, Reason]] = [("password", "http_auth"), ("stale", "bad_304"), ("gone", "http_gone")]
    for name, reason in reasons:
        folder.fail(folder.add(name, f"https://{name}.example/", due=NOW + 6 * DAY), reason, ended=NOW - 2 * HOUR)
    paused = folder.add("paused-one", "https://paused.example/feed")
    handle = folder.nd.get("collect", paused.id)
    assert handle is not None
    handle.pause()
    orphan = folder.add("orphan", "https://orphan.example/feed", origin="toml")
    folder.write(lambda tx: tx.execute(SQL["orphan"], {"number": orphan.number, "orphaned": True}))
    folder.add("twin", "https://twin.example/feed", due=NOW + HOUR)
    folder.write(lambda tx: tx.execute("UPDATE source SET same_as = 'river-notes' WHERE id = 'twin'", {}))


def _hostile(folder: Folder) -> Source:
    source = folder.add(HOSTILE.replace("\x1b", ""), f"https://hostile.example/{HOSTILE[:9]}", due=NOW + MINUTE)
    folder.succeed(
        source,
        item("1", HOSTILE, HOSTILE, html=f"<p>{HOSTILE}</p></article></main><h1>Out</h1>", author=HOSTILE),
        item("2", LONG_WORD, LONG_WORD, html=f"<p>{LONG_WORD}</p><pre>{LONG_WORD}</pre>{WIDE}", link=LONG_URL),
        item("3", "", "", html="", link=None, published=None),
        item(
            "4",
            "Nested",
            "Nested",
            html="<div>" * 500 + "deep" + "<a href='https://a.example/'><a href='javascript:alert(3)'>x",
        ),
        ended=NOW - 2 * MINUTE,
        title=HOSTILE,
    )
    long = folder.add("a-name-" + LONG_WORD[:150], LONG_URL, due=NOW + 40 * MINUTE)
    folder.succeed(long, ended=NOW - 3 * MINUTE, title=LONG_WORD)
    return source
