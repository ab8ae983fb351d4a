"""All words that commands and pages say, in English and Russian: one dictionary for each language, the same keys.

A word of a message that depends on a count is written [count|one|many] in English, [count|one|few|many] in Russian:
"{count} [count|entry|entries]". Values are put in as they are; pages escape them.
"""

import re
from typing import Any, Literal, get_args

Language = Literal["en", "ru"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_COUNTED = re.compile(r"\[(\w+)((?:\|[^|\[\]]*)+)\]")

EN: dict[str, str] = {
    "page.about": "{count} approved [count|entry|entries]",
    "page.none": "Nothing is approved yet.",
    "page.untitled": "untitled",
}

RU: dict[str, str] = {
    "page.about": "{count} [count|одобренная запись|одобренные записи|одобренных записей]",
    "page.none": "Пока ничего не одобрено.",
    "page.untitled": "без заголовка",
}

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
