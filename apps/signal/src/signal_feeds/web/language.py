"""Which language a reader wants: what the address asks for, else what the browser prefers, else that of signal.toml."""

from starlette.requests import Request

from signal_feeds.texts import LANGUAGES, Language


def chosen(request: Request) -> Language | None:
    """What ?lang= asks for."""
    return next((lang for lang in LANGUAGES if request.query_params.get("lang") == lang), None)


def preferred(accepts: str, default: Language) -> Language:
    """By Accept-Language (RFC 9110, 12.5.4); nonsense in it counts for nothing.

    >>> preferred("de, ru-RU;q=0.8, en;q=0.5", "en"), preferred("", "ru"), preferred("*;q=0.1", "ru")
    ('ru', 'ru', 'ru')
    """
    best: tuple[float, Language] = (0.0, default)
    for part in accepts.split(",")[:20]:
        name, _, rest = part.strip().lower().partition(";")
        lang = next((known for known in LANGUAGES if name.strip().split("-")[0] == known), None)
        quality = _quality(rest)
        if lang is not None and quality > best[0]:
            best = quality, lang
    return best[1]


def _quality(text: str) -> float:
    key, _, value = text.strip().partition("=")
    if not key:
        return 1.0
    try:
        return min(1.0, max(0.0, float(value))) if key.strip() == "q" else 1.0
    except ValueError:
        return 0.0
