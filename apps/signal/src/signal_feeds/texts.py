"""All words that commands and pages say, in English and Russian: one dictionary for each language, the same keys.

A word of a message that depends on a count is written [count|one|many] in English, [count|one|few|many] in Russian:
"{count} [count|entry|entries]". Values are put in as they are; pages escape them.
"""

import re
from datetime import datetime
from typing import Any, Literal, get_args

Language = Literal["en", "ru"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_COUNTED = re.compile(r"\[(\w+)((?:\|[^|\[\]]*)+)\]")

EN: dict[str, str] = {
    "cli.approved": "approved",
    "cli.author": "author",
    "cli.changed": "changed",
    "cli.decide.now": "After reading what it says now:",
    "cli.diff.first": "This is its first text: nothing has changed yet.",
    "cli.diff.same": "{count} [count|word|words] the same",
    "cli.export": "{count} [count|source|sources] written to {path}",
    "cli.import.added": "{count} [count|source|sources] added; the first requests are spread over 30 minutes.",
    "cli.import.broken": "The file is broken, and what comes after this place wasn't read: {why}",
    "cli.import.left": "{count} left out:",
    "cli.import.line": "line {line}",
    "cli.import.none": "No feed is listed in this file: no outline has an xmlUrl.",
    "cli.key": "key",
    "cli.link": "link",
    "cli.publish.new": "written",
    "cli.publish.same": "as it was",
    "cli.publish.cut": "Only the {count} decided last are published.",
    "cli.published": "published",
    "cli.queue": "{count} [count|entry waits|entries wait] for a decision.",
    "cli.queue.changed": "{count} [count|entry has|entries have] changed after a decision.",
    "cli.queue.how": "{shown} shown. To read one: signal show ID --diff. To reject one: the same line with reject.",
    "cli.rejected": "rejected",
    "cli.revisions": "revisions, * is the current one",
    "cli.search": "{count} [count|entry|entries] with {asked}",
    "cli.search.none": "Nothing found: no entry has all of: {asked}",
    "cli.seen": "first seen",
    "cli.source": "source",
    "cli.state": "state",
    "cli.text": "text",
    "cli.title": "title",
    "cli.waits": "waits",
    "page.about": "{count} approved [count|entry|entries]",
    "page.none": "Nothing is approved yet.",
    "page.untitled": "untitled",
    "time.now": "now",
    "time.in": "in {span}",
    "time.ago": "{span} ago",
}

RU: dict[str, str] = {
    "cli.approved": "одобрено",
    "cli.author": "автор",
    "cli.changed": "изменено",
    "cli.decide.now": "Прочитав, что там теперь:",
    "cli.diff.first": "Это первый текст записи: изменений ещё не было.",
    "cli.diff.same": "{count} [count|слово|слова|слов] без изменений",
    "cli.export": "{count} [count|источник записан|источника записано|источников записано] в {path}",
    "cli.import.added": "{count} [count|новый источник|новых источника|новых источников]; первые запросы — в течение 30 минут.",
    "cli.import.broken": "Файл повреждён, после этого места он не прочитан: {why}",
    "cli.import.left": "Пропущено: {count}",
    "cli.import.line": "строка {line}",
    "cli.import.none": "В этом файле нет ни одной ленты: ни у одного outline нет xmlUrl.",
    "cli.key": "ключ",
    "cli.link": "ссылка",
    "cli.publish.new": "записано",
    "cli.publish.same": "без изменений",
    "cli.publish.cut": "Публикуются только {count} с последними решениями.",
    "cli.published": "опубликовано",
    "cli.queue": "{count} [count|запись ждёт|записи ждут|записей ждут] решения.",
    "cli.queue.changed": "{count} [count|запись изменилась|записи изменились|записей изменилось] после решения.",
    "cli.queue.how": "Показано: {shown}. Прочитать: signal show ID --diff. Отклонить: та же строка с reject.",
    "cli.rejected": "отклонено",
    "cli.revisions": "версии, * — текущая",
    "cli.search": "{count} [count|запись|записи|записей]: {asked}",
    "cli.search.none": "Ничего не найдено: нет записи, где есть всё это: {asked}",
    "cli.seen": "впервые",
    "cli.source": "источник",
    "cli.state": "состояние",
    "cli.text": "текст",
    "cli.title": "заголовок",
    "cli.waits": "ждёт",
    "page.about": "{count} [count|одобренная запись|одобренные записи|одобренных записей]",
    "page.none": "Пока ничего не одобрено.",
    "page.untitled": "без заголовка",
    "time.now": "сейчас",
    "time.in": "через {span}",
    "time.ago": "{span} назад",
}

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
    """How far an instant is from now.

    >>> relative("en", 720_000, 0), relative("ru", 0, 60_000), relative("ru", 0, 0)
    ('in 12 min', '1 мин назад', 'сейчас')
    """
    if abs(ms - now_ms) < 500:
        return say(lang, "time.now")
    return say(lang, "time.in" if ms > now_ms else "time.ago", span=span(lang, abs(ms - now_ms)))


def local(ms: int) -> str:
    """An instant in local time, to the minute; the zone stands elsewhere."""
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M}"
