"""Atom 1.0 (RFC 4287) and JSON Feed 1.1."""

import json
from typing import Any
from xml.etree.ElementTree import Element

from signal_feeds.markup import add, document, outgoing
from signal_feeds.publishing.records import Feed, Published, rfc3339

JSON_FEED = "https://jsonfeed.org/version/1.1"


def atom(feed: Feed) -> bytes:
    """The feed as Atom: what is approved, with the source of each entry."""
    root = Element("feed", {"xmlns": "http://www.w3.org/2005/Atom"})
    add(root, "id", feed.id)
    add(root, "title", feed.title)
    add(root, "updated", rfc3339(feed.updated))
    if feed.url:
        add(root, "link", rel="self", type="application/atom+xml", href=f"{feed.url}atom.xml")
        add(root, "link", rel="alternate", type="text/html", href=feed.url)
    for entry in feed.entries:
        _add_entry(root, entry)
    return document(root)


def _add_entry(root: Element, entry: Published) -> None:
    element = add(root, "entry")
    add(element, "id", entry.id)
    add(element, "title", entry.title)
    add(element, "updated", rfc3339(entry.updated))
    add(element, "published", rfc3339(entry.published))
    if entry.link:
        add(element, "link", rel="alternate", href=entry.link)
    add(add(element, "author"), "name", entry.author or entry.source_name)
    source = add(element, "source")
    add(source, "id", entry.source_url)
    add(source, "title", entry.source_name)
    add(source, "updated", rfc3339(entry.updated))
    if entry.source_url.startswith("http"):  # else it is a fixture's, which nobody can follow
        add(source, "link", rel="self", href=entry.source_url)
    if entry.site:
        add(source, "link", rel="alternate", href=entry.site)
    add(element, "content", entry.html, type="html")


def json_feed(feed: Feed) -> bytes:
    """The feed as JSON Feed, with the source of each entry as `_source`."""
    whole: dict[str, Any] = {"version": JSON_FEED, "title": feed.title}
    if feed.url:
        whole |= {"home_page_url": feed.url, "feed_url": f"{feed.url}feed.json"}
    whole["items"] = [_item(entry) for entry in feed.entries]
    return (json.dumps(whole, ensure_ascii=False, indent=1) + "\n").encode()


def _item(entry: Published) -> dict[str, Any]:
    item: dict[str, Any] = {"id": entry.id}
    if entry.link:
        item["url"] = entry.link
    if entry.title:
        item["title"] = outgoing(entry.title)
    item |= {
        "content_html": outgoing(entry.html),
        "content_text": outgoing(entry.text),
        "date_published": rfc3339(entry.published),
        "date_modified": rfc3339(entry.updated),
        "authors": [{"name": outgoing(entry.author or entry.source_name)}],
    }
    source = {"title": outgoing(entry.source_name), "site": entry.site}
    if entry.source_url.startswith("http"):
        source["url"] = entry.source_url
    item["_source"] = {name: value for name, value in source.items() if value}
    return item
