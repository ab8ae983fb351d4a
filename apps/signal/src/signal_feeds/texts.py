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
    "web.skip": "to the content",
    "web.nav": "pages",
    "web.nav.entries": "Approved",
    "web.nav.queue": "Queue",
    "web.nav.sources": "Sources",
    "web.nav.search": "Search",
    "web.foot.feeds": "what was approved, as a feed",
    "web.foot.opml": "the sources, as OPML",
    "web.foot.health": "health",
    "web.foot.other": "по-русски",
    "web.foot.clock": "Times are UTC; this page is of",
    "web.more": "further",
    "web.first": "to the beginning",
    "web.time.moment": "less than a minute",
    "web.time.overdue": "overdue by {span}",
    "web.entries.title": "Approved entries",
    "web.entry.read": "Read it at its publisher",
    "web.entry.image": "image",
    "web.entry.long": "It is longer than what is shown here.",
    "web.entry.none": "It has no text of its own.",
    "web.entry.published": "published",
    "web.entry.seen": "first seen",
    "web.entry.source": "source",
    "web.entry.author": "author",
    "web.entry.verdict": "verdict",
    "web.entry.revisions": "Its texts, the last one first",
    "web.entry.current": "what it says now",
    "web.entry.compare": "compare with the current text",
    "web.entry.diff": "What has changed",
    "web.entry.nodiff": "The visible text is the same.",
    "web.verdict.approved": "approved",
    "web.verdict.rejected": "rejected",
    "web.verdict.none": "waits for a decision",
    "web.fingerprint": "fingerprint",
    "web.diff.title": "title",
    "web.diff.link": "link",
    "web.diff.text": "text",
    "web.diff.cut": "… unchanged text …",
    "web.diff.later": "Show the difference",
    "web.queue.title": "Waiting for a decision",
    "web.queue.about": (
        "{count} [count|entry waits|entries wait]. These pages only show; decide in a terminal, in the "
        "folder of this Signal."
    ),
    "web.queue.none": "Nothing waits.",
    "web.queue.all": "all",
    "web.queue.changed": "changed after a decision",
    "web.queue.is_changed": "changed",
    "web.queue.is_new": "new",
    "web.queue.approve": "To approve",
    "web.queue.reject": "To reject",
    "web.sources.title": "Sources",
    "web.sources.about": "{count} [count|source|sources], {failing} failing.",
    "web.sources.collecting": "A worker is collecting.",
    "web.sources.resting": "No worker is running; one is started by: signal worker --network",
    "web.sources.none": "There is no source here.",
    "web.sources.all": "all",
    "web.sources.failing": "failing",
    "web.source.name": "Source",
    "web.source.reason": "State",
    "web.source.failures": "Failures",
    "web.source.ok": "Last success",
    "web.source.due": "Next due",
    "web.source.fresh": "New",
    "web.source.fine": "in order",
    "web.source.untried": "not asked yet",
    "web.source.never": "never",
    "web.source.paused": "paused",
    "web.source.orphaned": "no longer named in signal.toml",
    "web.source.same": "leads to the same feed as {other}",
    "web.source.running": "being asked now",
    "web.source.blocked": "as soon as its host is free",
    "web.source.unscheduled": "not by itself",
    "web.source.fixture": "comes with Signal",
    "web.source.attempts": "Attempts, the last one first",
    "web.source.unattempted": "It wasn't asked yet.",
    "web.source.offers": "This is a page. The feeds that it offers:",
    "web.source.add": "To add one",
    "web.source.entries": "Entries",
    "web.source.noentries": "It has brought no entries yet.",
    "web.source.why": "In a terminal",
    "web.attempt.when": "When",
    "web.attempt.outcome": "Outcome",
    "web.attempt.status": "HTTP",
    "web.attempt.took": "Took",
    "web.attempt.ok": "success",
    "web.attempt.fresh": "new: {count}",
    "web.attempt.changed": "changed: {count}",
    "web.attempt.cut": "left out as over the limit: {count}",
    "web.attempt.by": "asked for by {who}",
    "web.attempt.seconds": "{count} s",
    "web.search.title": "Search",
    "web.search.label": "Words to look for",
    "web.search.go": "Search",
    "web.search.hint": (
        'All words must be there. "In quotes": in this order. A star at the end: whatever begins so, like autom*.'
    ),
    "web.search.none": "Nothing is found.",
    "web.search.empty": "There is no word in that.",
    "web.error.404": "There is no such page",
    "web.error.404.about": "Nothing is found under this address.",
    "web.error.503": "There is nothing to show yet",
    "web.error.init": "There is no database in this folder. Make one by:",
    "web.error.unreadable": "The database can't be read just now; its own words are in the terminal of the server.",
    "web.error.500": "A fault of our own",
    "web.error.500.about": "The page couldn't be made; what happened is in the terminal of the server.",
    "web.entries.none": "Nothing is approved yet. What is new waits in the queue.",
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
    "web.skip": "к содержанию",
    "web.nav": "страницы",
    "web.nav.entries": "Одобрено",
    "web.nav.queue": "Очередь",
    "web.nav.sources": "Источники",
    "web.nav.search": "Поиск",
    "web.foot.feeds": "одобренное в виде ленты",
    "web.foot.opml": "источники в OPML",
    "web.foot.health": "состояние",
    "web.foot.other": "in English",
    "web.foot.clock": "Время всюду UTC; страница от",
    "web.more": "дальше",
    "web.first": "в начало",
    "web.time.moment": "меньше минуты",
    "web.time.overdue": "просрочен: {span}",
    "web.entries.title": "Одобренные записи",
    "web.entry.read": "Читать у издателя",
    "web.entry.image": "изображение",
    "web.entry.long": "Запись длиннее, чем показано здесь.",
    "web.entry.none": "Собственного текста у неё нет.",
    "web.entry.published": "опубликовано",
    "web.entry.seen": "впервые замечено",
    "web.entry.source": "источник",
    "web.entry.author": "автор",
    "web.entry.verdict": "решение",
    "web.entry.revisions": "Её тексты, последний сначала",
    "web.entry.current": "что в ней сейчас",
    "web.entry.compare": "сравнить с нынешним текстом",
    "web.entry.diff": "Что изменилось",
    "web.entry.nodiff": "Видимый текст тот же.",
    "web.verdict.approved": "одобрено",
    "web.verdict.rejected": "отклонено",
    "web.verdict.none": "ждёт решения",
    "web.fingerprint": "отпечаток",
    "web.diff.title": "заголовок",
    "web.diff.link": "ссылка",
    "web.diff.text": "текст",
    "web.diff.cut": "… без изменений …",
    "web.diff.later": "Показать различия",
    "web.queue.title": "Ждут решения",
    "web.queue.about": (
        "{count} [count|запись ждёт|записи ждут|записей ждут]. Здесь можно только читать; решения "
        "вводятся в терминале, в папке этого Signal."
    ),
    "web.queue.none": "Ничто не ждёт.",
    "web.queue.all": "все",
    "web.queue.changed": "изменённые после решения",
    "web.queue.is_changed": "изменена",
    "web.queue.is_new": "новая",
    "web.queue.approve": "Одобрить",
    "web.queue.reject": "Отклонить",
    "web.sources.title": "Источники",
    "web.sources.about": "{count} [count|источник|источника|источников], с ошибками {failing}.",
    "web.sources.collecting": "Сборщик работает.",
    "web.sources.resting": "Сборщик не запущен; его запускает команда: signal worker --network",
    "web.sources.none": "Здесь нет источников.",
    "web.sources.all": "все",
    "web.sources.failing": "с ошибками",
    "web.source.name": "Источник",
    "web.source.reason": "Состояние",
    "web.source.failures": "Сбои",
    "web.source.ok": "Последний успех",
    "web.source.due": "Следующий опрос",
    "web.source.fresh": "Новых",
    "web.source.fine": "в порядке",
    "web.source.untried": "ещё не опрашивался",
    "web.source.never": "не было",
    "web.source.paused": "приостановлен",
    "web.source.orphaned": "больше не назван в signal.toml",
    "web.source.same": "ведёт к той же ленте, что и {other}",
    "web.source.running": "опрашивается сейчас",
    "web.source.blocked": "как только освободится сервер",
    "web.source.unscheduled": "сам не опрашивается",
    "web.source.fixture": "поставляется с Signal",
    "web.source.attempts": "Попытки, последняя сначала",
    "web.source.unattempted": "Его ещё не опрашивали.",
    "web.source.offers": "Это страница. Ленты, которые она предлагает:",
    "web.source.add": "Добавить",
    "web.source.entries": "Записи",
    "web.source.noentries": "Записей от него ещё не было.",
    "web.source.why": "В терминале",
    "web.attempt.when": "Когда",
    "web.attempt.outcome": "Итог",
    "web.attempt.status": "HTTP",
    "web.attempt.took": "Заняло",
    "web.attempt.ok": "успех",
    "web.attempt.fresh": "новых: {count}",
    "web.attempt.changed": "изменённых: {count}",
    "web.attempt.cut": "сверх предела пропущено: {count}",
    "web.attempt.by": "по просьбе {who}",
    "web.attempt.seconds": "{count} с",
    "web.search.title": "Поиск",
    "web.search.label": "Что искать",
    "web.search.go": "Искать",
    "web.search.hint": (
        'Должны быть все слова. "В кавычках": именно в этом порядке. Звёздочка в конце: всё, что так '
        "начинается, например авто*."
    ),
    "web.search.none": "Ничего не найдено.",
    "web.search.empty": "Здесь нет ни одного слова.",
    "web.error.404": "Такой страницы нет",
    "web.error.404.about": "По этому адресу ничего не найдено.",
    "web.error.503": "Показывать пока нечего",
    "web.error.init": "В этой папке нет базы данных. Её создаёт команда:",
    "web.error.unreadable": "Базу сейчас прочитать не удаётся; подробности в терминале сервера.",
    "web.error.500": "Наша внутренняя ошибка",
    "web.error.500.about": "Страницу не удалось собрать; что случилось, видно в терминале сервера.",
    "web.entries.none": "Пока ничего не одобрено. Новое ждёт в очереди.",
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
