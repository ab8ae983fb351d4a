"""All words that commands and pages say, in English and Russian: one dictionary for each language, the same keys.

A word of a message that depends on a count is written [count|one|many] in English, [count|one|few|many] in Russian:
"{count} [count|entry|entries]". Values are put in as they are; pages escape them.
"""

import re
from datetime import datetime
from typing import Any, Literal, get_args

from signal_feeds.reasons import WORDS

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
    "cli.made": "made {path}",
    "cli.kept": "{path} is there already and stays as it is",
    "cli.sources": "{count} [count|source|sources]: {names}",
    "cli.next": "next: `signal worker --once` reads those on this machine, with --network all of them",
    "cli.added": "{name} is added: {url}, to be asked {when} by a worker with --network",
    "list.name": "name",
    "list.due": "next due",
    "list.ok": "last success",
    "list.failures": "failures",
    "list.state": "state",
    "list.none": "none",
    "list.new": "named in signal.toml, taken up when a worker starts: {names}",
    "state.waiting": "waits",
    "state.running": "is being asked",
    "state.paused": "paused",
    "state.held": "set aside by nextdue",
    "state.dead": "given up by nextdue",
    "state.gone": "its task is over; a worker's start makes a new one",
    "state.orphaned": "orphaned: no longer named in signal.toml",
    "refresh.rests": "{name} can't be asked: {state}",
    "refresh.http": "noted; a worker with --network asks {name} at once",
    "refresh.local": "noted; a worker reads {name} at once",
    "pause.already": "{name} is paused already",
    "pause.waits": "{name} is being asked; waiting for the end of that",
    "pause.busy": "{name} is still being asked; nothing was changed, try again",
    "pause.done": "{name} is paused, until: signal resume {name}",
    "resume.orphaned": "{name} is no longer named in signal.toml; name it there again, and the next worker takes it up",
    "resume.needless": "{name} isn't paused",
    "resume.done": "{name} goes on, next due {when}",
    "work.begin": "Signal in {folder}: {count} [count|source|sources]",
    "work.offline": "{count} [count|isn't|aren't] asked without --network",
    "work.resting": "{count} [count|rests|rest]: paused, orphaned or set aside; signal list shows which",
    "work.due": "{count} due now",
    "work.next": "next due {when}",
    "work.end": "{asked} asked, {failed} failed, {fresh} new [fresh|entry|entries]",
    "work.failed": "failed",
    "work.file": "file",
    "work.fresh": "{count} new [count|entry|entries]",
    "work.changed": "{count} changed",
    "why.url": "URL",
    "why.given": "declared as",
    "why.origin": "from",
    "why.state": "state",
    "why.due": "next due",
    "why.because": "because",
    "why.network": "by whom",
    "why.only": "a worker with --network",
    "why.ok": "last success",
    "why.never": "never",
    "why.failures": "failures",
    "why.faults": "our own faults",
    "why.error": "last error",
    "why.not_before": "not before",
    "why.moved": "moved",
    "why.gone": "gone",
    "why.same_as": "the same",
    "why.moved_to": "to {url}, {count} [count|time|times], first {since}; believed after {most} over two days",
    "why.gone_since": "its server said so {count} [count|time|times], first {since}",
    "why.same": "it leads to the feed of {name}",
    "why.offers": "it is a page that offers these feeds:",
    "why.attempts": "its last attempts:",
    "because.wish": "{who} asked for it out of turn",
    "because.first": "a new source is asked within 30 minutes of being added",
    "because.file": "it was never read",
    "because.early": "somebody made it due before its turn; a worker puts it off until {turn}",
    "because.interval": "its interval is {span}",
    "because.fresh": "its server wants {span} between two requests",
    "because.feed": "the feed says that it is new every {span}",
    "because.skips": ", and its publisher wants no request at {at}",
    "because.gone": "gone {count} times over {over}: it is asked once in 7 days",
    "because.server": "its server wants no request before {until}",
    "because.failure": "after {count} [count|failure|failures] in a row it waits {span} and up to 30 s more",
    "because.fault": "after {count} [count|fault|faults] of our own in a row it waits {span} and up to 30 s more",
    "kind.transient": "passes by itself",
    "kind.publisher": "the publisher must mend it",
    "kind.policy": "forbidden by a rule of ours",
    "kind.local": "our own fault",
    "origin.builtin": "comes with Signal",
    "origin.toml": "signal.toml",
    "origin.added": "signal add",
    "origin.opml": "an OPML file",
    "attempt.begun": "begun",
    "attempt.outcome": "outcome",
    "attempt.fresh": "new",
    "attempt.changed": "changed",
    "attempt.by": "asked for by",
    "attempt.cut": "({count} more than the limit)",
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
    "cli.made": "создан {path}",
    "cli.kept": "{path} уже есть и остаётся как есть",
    "cli.sources": "{count} [count|источник|источника|источников]: {names}",
    "cli.next": "дальше: `signal worker --once` прочтёт те, что на этой машине, с --network — все",
    "cli.added": "{name} добавлен: {url}; {when} его опросит worker с ключом --network",
    "list.name": "имя",
    "list.due": "следующий опрос",
    "list.ok": "последний успех",
    "list.failures": "неудачи",
    "list.state": "состояние",
    "list.none": "нет таких",
    "list.new": "названы в signal.toml, будут приняты при запуске worker: {names}",
    "state.waiting": "ждёт",
    "state.running": "опрашивается",
    "state.paused": "приостановлен",
    "state.held": "отложен nextdue",
    "state.dead": "оставлен nextdue",
    "state.gone": "его задача завершена; при запуске worker появится новая",
    "state.orphaned": "без хозяина: больше не назван в signal.toml",
    "refresh.rests": "{name} опросить нельзя: {state}",
    "refresh.http": "записано; worker с ключом --network опросит {name} сразу",
    "refresh.local": "записано; worker прочтёт {name} сразу",
    "pause.already": "{name} уже приостановлен",
    "pause.waits": "{name} сейчас опрашивается; ждём конца",
    "pause.busy": "{name} всё ещё опрашивается; ничего не изменено, повторите позже",
    "pause.done": "{name} приостановлен, пока не будет команды: signal resume {name}",
    "resume.orphaned": "{name} больше не назван в signal.toml; назовите его там снова, и следующий worker его примет",
    "resume.needless": "{name} не приостановлен",
    "resume.done": "{name} снова в работе, следующий опрос {when}",
    "work.begin": "Сигнал в {folder}: {count} [count|источник|источника|источников]",
    "work.offline": "{count} без ключа --network не [count|опрашивается|опрашиваются|опрашиваются]",
    "work.resting": "{count} не в работе: приостановлены, без хозяина или отложены; какие — покажет signal list",
    "work.due": "пора опросить: {count}",
    "work.next": "следующий опрос {when}",
    "work.end": "опрошено {asked}, неудач {failed}, новых записей {fresh}",
    "work.failed": "неудача",
    "work.file": "файл",
    "work.fresh": "{count} [count|новая запись|новые записи|новых записей]",
    "work.changed": "изменено {count}",
    "why.url": "URL",
    "why.given": "объявлен как",
    "why.origin": "откуда",
    "why.state": "состояние",
    "why.due": "следующий опрос",
    "why.because": "потому что",
    "why.network": "кем",
    "why.only": "worker с ключом --network",
    "why.ok": "последний успех",
    "why.never": "не было",
    "why.failures": "неудачи",
    "why.faults": "наши ошибки",
    "why.error": "последняя ошибка",
    "why.not_before": "не раньше",
    "why.moved": "переехал",
    "why.gone": "удалён",
    "why.same_as": "то же самое",
    "why.moved_to": "на {url}, {count} [count|раз|раза|раз], впервые {since}; поверим после {most} за двое суток",
    "why.gone_since": "сервер сказал это {count} [count|раз|раза|раз], впервые {since}",
    "why.same": "ведёт к ленте источника {name}",
    "why.offers": "это страница, которая предлагает такие ленты:",
    "why.attempts": "последние попытки:",
    "because.wish": "вне очереди, по просьбе: {who}",
    "because.first": "новый источник опрашивают в течение 30 минут после добавления",
    "because.file": "его ещё не читали",
    "because.early": "кто-то назначил его раньше срока; worker отложит его до {turn}",
    "because.interval": "его интервал — {span}",
    "because.fresh": "сервер просит {span} между запросами",
    "because.feed": "лента говорит, что обновляется раз в {span}",
    "because.skips": ", и издатель не хочет запросов в {at}",
    "because.gone": "удалён: {count} раза за {over}; его спрашивают раз в 7 дней",
    "because.server": "сервер просит не обращаться до {until}",
    "because.failure": "после {count} [count|неудачи|неудач|неудач] подряд пауза {span} и ещё до 30 с",
    "because.fault": "после {count} [count|нашей ошибки|наших ошибок|наших ошибок] подряд пауза {span} и ещё до 30 с",
    "kind.transient": "пройдёт само",
    "kind.publisher": "исправить может издатель",
    "kind.policy": "запрещено нашим правилом",
    "kind.local": "наша ошибка",
    "origin.builtin": "встроен в Сигнал",
    "origin.toml": "signal.toml",
    "origin.added": "signal add",
    "origin.opml": "файл OPML",
    "attempt.begun": "начата",
    "attempt.outcome": "итог",
    "attempt.fresh": "новых",
    "attempt.changed": "изменено",
    "attempt.by": "по просьбе",
    "attempt.cut": "(сверх предела ещё {count})",
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
    """An instant in local time, to the minute; the zone stands elsewhere."""
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M}"
