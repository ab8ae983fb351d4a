"""Safety: GET and HEAD only, read-only, CSP without scripts, everything escaped, control characters shown."""

import re
import socket
from html.parser import HTMLParser

import pytest

from apps.signal.tests.web.conftest import Pages

PEOPLE = ["/", "/sources", "/sources?show=failing", "/source/1", "/source/6", "/source/8", "/source/16", "/queue",
          "/queue?show=changed", "/entry/1", "/entry/2", "/entry/9", "/entry/10", "/entry/11", "/entry/12",
          "/search", "/search?q=river", "/search?q=%22%3Cscript%3E", "/search?q=!"]  # fmt: skip
MACHINES = ["/feed.atom", "/feed.json", "/opml", "/healthz", "/style.css", "/icon.svg"]
EVERYTHING = [*PEOPLE, *MACHINES, "/nope", "/source/0", "/entry/99", "/entry/x", f"/entry/{10**30}"]


class Reader(HTMLParser):
    """What a browser would make of a page: its elements, its text, where its links lead."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.seen = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.seen += data


@pytest.mark.parametrize("path", EVERYTHING)
def test_every_answer_keeps_scripts_frames_and_others_out(pages: Pages, path: str) -> None:
    answer, _ = pages.ask(path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Server"] is None


@pytest.mark.parametrize("path", EVERYTHING)
def test_head_is_get_without_its_body(pages: Pages, path: str) -> None:
    get, body = pages.ask(path)
    head, nothing = pages.ask(path, "HEAD")
    assert (head.status, nothing) == (get.status, b"")
    assert body
    for name in ("Content-Type", "Content-Length", "ETag", "Content-Security-Policy", "Content-Language"):
        assert head.headers[name] == get.headers[name], name


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/", "/feed.atom", "/nope", "/healthz"])
def test_only_get_and_head_are_answered(pages: Pages, method: str, path: str) -> None:
    answer, _ = pages.ask(path, method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", PEOPLE)
@pytest.mark.parametrize("lang", ["en", "ru"])
def test_hostile_text_stays_text(pages: Pages, path: str, lang: str) -> None:
    html = pages.text(path, Accept_Language=lang)
    page = Reader(html)
    assert not {"script", "img", "iframe", "object", "embed", "style", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    links = [value for name, value in page.attributes if name in ("href", "src", "action")]
    assert [link for link in links if not re.match(r"/|#|https?://", link)] == []
    assert "49" not in re.findall(r"evil(\d+)", html)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]", html)
    assert page.tags.count("main") == page.tags.count("h1") == 1


def test_control_characters_are_shown(pages: Pages) -> None:
    seen = Reader(pages.text("/entry/9")).seen
    assert "[U+001B][31m[U+202E]evil{{7*7}}" in seen


def test_every_element_of_an_entry_is_closed_within_its_box(pages: Pages) -> None:
    html = pages.text("/entry/9")
    body = html.partition('<div class="body"')[2].partition("</article>")[0]
    assert "<h3" in body
    assert ">Out<" in body
    deep = pages.text("/entry/12")
    assert deep.count("<div") == deep.count("</div>") < 100
    assert "javascript" not in deep


def test_an_image_is_a_link_to_it(pages: Pages) -> None:
    html = pages.text("/entry/1")
    assert '<a class="picture" rel="noreferrer noopener nofollow" href="https://cdn.example/river.jpg">' in html
    assert "image: The river at the old mill" in html


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:8030", "[::1]:9", "192.168.1.2", "localhost."])
def test_addresses_and_localhost_are_its_names(pages: Pages, host: str) -> None:
    answer, _ = pages.ask("/healthz", Host=host)
    assert answer.status in (200, 503)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "::1", "a@localhost"])
def test_another_name_is_refused(pages: Pages, host: str) -> None:
    """DNS rebinding: a page of another site that points its own name at this machine."""
    answer, body = pages.ask("/", Host=host)
    assert answer.status == 421
    assert b"entries" not in body


@pytest.mark.parametrize("hosts", [[], ["localhost", "evil.example"]], ids=["none", "two"])
def test_there_is_one_host(pages: Pages, hosts: list[str]) -> None:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    with socket.create_connection(("127.0.0.1", pages.port), timeout=30) as connection:
        connection.sendall(f"GET / HTTP/1.0\r\n{lines}\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.split()[1] in (b"400", b"421")
    assert b"<html" not in answer


@pytest.mark.parametrize("path", ["/", "/sources", "/entry/1", "/nope"])
def test_the_language_is_that_of_the_reader(pages: Pages, path: str) -> None:
    def language(path: str, accepts: str) -> str:
        answer, body = pages.ask(path, Accept_Language=accepts)
        lang = answer.headers["Content-Language"]
        assert f'<html lang="{lang}">' in body.decode()
        assert "Accept-Language" in answer.headers["Vary"]
        return str(lang)

    assert language(path, "ru") == "ru"
    assert language(path, "de, en;q=0.5, ru;q=0.9") == "ru"
    assert language(path, ";;q=x,,ru;q=nan") == "en"
    assert language(f"{path}?lang=en", "ru") == "en"
    assert language(f"{path}?lang=ru", "en") == "ru"


def test_the_chosen_language_stays_on_the_way(pages: Pages) -> None:
    html = pages.text("/sources?lang=ru", Accept_Language="en")
    assert 'href="/queue?lang=ru"' in html
    assert 'href="/source/1?lang=ru"' in html


@pytest.mark.parametrize(
    "query", ["after=%00", "after=%ff%fe", "after=zzz", "show=", "after=" + "x" * 5_000, "lang=de"]
)
def test_nonsense_in_an_address_does_no_harm(pages: Pages, query: str) -> None:
    for path in ("/sources", "/queue", "/", "/source/1", "/entry/1", "/search"):
        answer, _ = pages.ask(f"{path}?{query}&from=-1&before=1e9&most={'9' * 40}&q=%00%ff%22")
        assert answer.status == 200, path
