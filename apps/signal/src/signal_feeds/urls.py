"""Comparing and normalising URLs. Pure: nothing is asked of the network."""

import re
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from signal_feeds.errors import BadSource

LONGEST = 4_096
"""Characters; a longer URL is none."""

TRACKING_PREFIXES = ("utm_", "hsa_", "mtm_", "pk_", "piwik_", "matomo_")
_NAMES = (
    "fbclid gclid gclsrc dclid gbraid wbraid msclkid yclid ysclid twclid ttclid igshid igsh mc_cid mc_eid "
    "_openstat _hsenc _hsmi __hssc __hstc __hsfp hsctatracking mkt_tok vero_id oly_enc_id oly_anon_id "
    "ns_mchannel ns_source ns_campaign ns_linkname ns_fee xtor at_medium at_campaign at_custom1 at_custom2 "
    "at_custom3 at_custom4 wt_mc wt_zmc ito cmpid ftag rss_id feedname guccounter guce_referrer "
    "guce_referrer_sig spm _ga _gl s_kwcid"
)
TRACKING = frozenset(_NAMES.split())
"""Parameters of a query that say where a reader came from, and never what is read. Lower case."""
TRACKING_PAIRS = ("source=rss", "from=rss", "ref=rss", "partner=rss", "cmp=rss", "ftcamp=", "emc=rss")
"""The same, where only such a value is known to say nothing. Beginnings of `name=value`, lower case."""

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?")
_LITERAL = re.compile(r"[0-9a-f:.]+")
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SAFE = "!#$%&'()*+,/:;=?@[]~|"
_UNWRITTEN = re.compile(r"[^\x21-\x7e]|[\"<>\\^`{}]")
# A link that is canonical as it stands, as most are: what follows would change nothing of it.
_CANONICAL = re.compile(r"https?://[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?/[\w!$%&'()*+,/:;=@~.-]*", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def checked(text: str) -> str:
    """A feed's URL in its one spelling: http or https, the host in ASCII, no fragment. Raises BadSource.

    >>> checked(" HTTPS://Пример.РФ:443/лента#top ")
    'https://xn--e1afmkfd.xn--p1ai/%D0%BB%D0%B5%D0%BD%D1%82%D0%B0'
    """
    text = text.strip()
    if not text:
        raise BadSource("url.empty")
    shown = repr(text if len(text) <= 200 else text[:200] + "…")
    if len(text) > LONGEST:
        raise BadSource("url.long", url=shown, count=len(text), most=LONGEST)
    if _CONTROL.search(text) or "\\" in text:
        raise BadSource("url.blank", url=shown)
    scheme, _, rest = text.partition(":")
    if not _SCHEME.match(text) or not rest.startswith("//"):
        raise BadSource("url.part", url=shown, guess=_guess(text))
    if scheme.lower() not in _PORTS:
        raise BadSource("url.scheme", url=shown, scheme=scheme, guess=_guess(text))
    try:
        parts = urlsplit(text)
        netloc = _netloc(parts)
    except ValueError:
        raise BadSource("url.host", url=shown) from None
    if "@" in parts.netloc:
        raise BadSource("url.user", url=shown)
    query = f"?{_written(parts.query)}" if parts.query else ""
    return f"{parts.scheme}://{netloc}{_written(parts.path) or '/'}{query}"


def address_of(url: str) -> str:
    """By what two URLs are compared: no scheme, no default port, no slash at the end.

    >>> address_of("http://Example.org:80/feed/") == address_of("https://example.org/feed")
    True
    >>> address_of("fixture:rss.xml")
    'fixture:rss.xml'
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS:
            return url
        netloc = _netloc(parts)
    except ValueError:
        return url
    query = f"?{_written(parts.query)}" if parts.query else ""
    return f"{netloc}{_written(parts.path).rstrip('/')}{query}"


def host_of(url: str) -> str:
    """The host, lower case and in ASCII, without the port; the scheme where there is no host, as in fixture:rss.xml.

    >>> host_of("https://Example.org:8080/feed"), host_of("fixture:rss.xml")
    ('example.org', 'fixture')
    """
    try:
        parts = urlsplit(url)
        return _host(parts.hostname) if parts.hostname else parts.scheme
    except ValueError:
        return ""


def readable(host: str) -> str:
    """A host as its people write it; as it is where it has no such spelling, or one with more than letters and digits.

    >>> readable("xn--e1afmkfd.xn--p1ai"), readable("example.org"), readable("xn--a")
    ('пример.рф', 'example.org', 'xn--a')
    """
    if "xn--" not in host:
        return host
    import idna

    try:
        written = idna.decode(host)
    except idna.IDNAError:
        return host
    return written if re.fullmatch(r"[\w.-]+", written) else host


def joined(base: str, ref: str) -> str:
    """What `ref` means in a document at `base`; '' where it means nothing.

    >>> joined("https://example.org/a/feed.xml", "../b?c#d")
    'https://example.org/b?c#d'
    """
    try:
        return urljoin(base, ref.strip())
    except ValueError:
        return ""


def canonical_link(url: str, base: str = "") -> str | None:
    """An entry's link by which it is known again, or None where it isn't one of http or https. Idempotent.

    Relative ones are resolved, user names and what only says where a reader came from are dropped. A fragment stays
    unless it is of that kind: pages of news are linked to as page#entry.

    >>> canonical_link("../a?id=1&utm_source=rss#part", "HTTP://Example.org:80/x/feed.xml")
    'http://example.org/a?id=1#part'
    >>> canonical_link("javascript:alert(1)", "https://example.org/")
    """
    if len(url) > LONGEST:
        return None
    if _CANONICAL.fullmatch(url):
        return url
    try:
        parts = urlsplit(joined(base, url) if base else url.strip())
        if parts.scheme not in _PORTS:
            return None
        netloc = _netloc(parts)
    except ValueError:
        return None
    query, fragment = _untracked(parts.query), parts.fragment
    if fragment.startswith(":~:") or _untracked(fragment) != fragment or fragment.lower() in ("rss", "ref=rss"):
        fragment = ""
    link = f"{parts.scheme}://{netloc}{_written(parts.path) or '/'}"
    if query:
        link += f"?{_written(query)}"
    if fragment:
        link += f"#{_written(fragment)}"
    return link if len(link) <= LONGEST else None


def _untracked(query: str) -> str:
    if not query:
        return query
    return "&".join(part for part in query.split("&") if not _tracks(part.lower()))


def _tracks(part: str) -> bool:
    name = part.partition("=")[0]
    return name.startswith(TRACKING_PREFIXES) or name in TRACKING or part.startswith(TRACKING_PAIRS)


def _netloc(parts: SplitResult) -> str:
    """Host and port, the port only where it isn't the scheme's own. Raises ValueError."""
    host, port = _host(parts.hostname or ""), parts.port
    if port == 0:
        raise ValueError("port 0")
    if ":" in host:
        host = f"[{host}]"
    return host if port is None or port == _PORTS[parts.scheme] else f"{host}:{port}"


def _host(host: str) -> str:
    """In ASCII and lower case. Raises ValueError (idna's errors are such too)."""
    if len(host) > 253:
        raise ValueError("a host has 253 characters at most")
    if ":" in host:
        if not _LITERAL.fullmatch(host):
            raise ValueError(host)
        return host
    if not host.isascii():
        import idna

        host = idna.encode(host, uts46=True).decode("ascii")
    if not _HOST.fullmatch(host):
        raise ValueError(host)
    return host


def _written(text: str) -> str:
    """What may not stand in a URL, percent-encoded; what is encoded already stays as it is."""
    return quote(text, safe=_SAFE, errors="replace") if _UNWRITTEN.search(text) else text


def _guess(text: str) -> str:
    """What was meant, probably; an example where no host can be seen in it."""
    rest = re.sub(r"^(?:[A-Za-z][A-Za-z0-9+.-]*:(?!\d))*/*", "", text)
    whole = re.match(r"(?:[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:))(?::\d+)?(?:[/?]|$)", rest) and len(rest) <= 200
    return f"https://{rest}" if whole else "https://example.org/feed.xml"
