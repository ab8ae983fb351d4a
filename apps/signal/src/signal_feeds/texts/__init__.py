"""All words that commands and pages say, in English and Russian: en.py and ru.py beside this file, the same keys.

A word of a message that depends on a count is written [count|one|many] in English, [count|one|few|many] in Russian:
"{count} [count|entry|entries]". Values are put in as they are; pages escape them.
"""

import re
from datetime import datetime
from typing import Any, Literal, get_args

from signal_feeds.reasons import WORDS
from signal_feeds.texts.en import EN
from signal_feeds.texts.ru import RU

Language = Literal["en", "ru"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_COUNTED = re.compile(r"\[(\w+)((?:\|[^|\[\]]*)+)\]")

_SIZES_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_UNITS: dict[Language, tuple[str, str, str, str]] = {"en": ("d", "h", "min", "s"), "ru": ("д", "ч", "мин", "с")}

TEXTS: dict[Language, dict[str, str]] = {"en": EN, "ru": RU}


def say(lang: Language, key: str, **values: Any) -> str:
    """The message of this key. Raises KeyError for a key or a value that is missing.

    >>> say("ru", "page.about", count=22)
    '22 одобренные записи'
    """
    text = TEXTS[lang][key]
    if "[" in text:
        text = _COUNTED.sub(lambda found: found[2].split("|")[1:][form(lang, values[found[1]])], text)
    return text.format(**values)


def form(lang: Language, count: int) -> int:
    """Which form of a word goes with a count: English has two, Russian three.

    >>> [form("ru", count) for count in (1, 3, 5, 11, 21, 112)]
    [0, 1, 2, 2, 0, 2]
    """
    if lang == "en":
        return 0 if count == 1 else 1
    if count % 10 == 1 and count % 100 != 11:
        return 0
    return 1 if count % 10 in (2, 3, 4) and count % 100 not in (12, 13, 14) else 2


def reason(lang: Language, code: str) -> str:
    """Why an attempt failed, in words; the code itself where this version doesn't know it.

    >>> reason("ru", "timeout")
    'слишком медленно'
    """
    found = next((words for known, words in WORDS.items() if known == code), None)
    return code if found is None else found.en if lang == "en" else found.ru


def span(lang: Language, ms: int) -> str:
    """A length of time in its two largest units.

    >>> span("en", 5_400_000), span("ru", 59_400), span("en", 86_399_990)
    ('1 h 30 min', '59 с', '1 d')
    """
    first = next((at for at, size in enumerate(_SIZES_MS) if ms >= size), len(_SIZES_MS) - 1)
    step = _SIZES_MS[min(first + 1, len(_SIZES_MS) - 1)]
    left, parts = (ms + step // 2) // step * step, []
    for size, unit in zip(_SIZES_MS, _UNITS[lang], strict=True):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or f"0 {_UNITS[lang][-1]}"


def relative(lang: Language, ms: int, now_ms: int) -> str:
    """How far an instant is from now, without seconds from a minute on.

    >>> relative("en", 720_999, 0), relative("ru", 0, 59_000), relative("ru", 0, 0)
    ('in 12 min', '59 с назад', 'сейчас')
    """
    gap = abs(ms - now_ms)
    if gap < 500:
        return say(lang, "time.now")
    if gap >= 59_500:
        gap = (gap + 30_000) // 60_000 * 60_000
    return say(lang, "time.in" if ms > now_ms else "time.ago", span=span(lang, gap))


def local(ms: int) -> str:
    """An instant in local time, to the minute, and its zone."""
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M %Z}"
