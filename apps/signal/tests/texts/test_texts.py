"""Two languages, the same keys and the same values in both."""

import re
from pathlib import Path
from string import Formatter

import pytest

import signal_feeds
from signal_feeds.errors import BadSettings, Changed, NotYet, SignalError
from signal_feeds.texts import LANGUAGES, TEXTS, form, say
from signal_feeds.texts.en import EN
from signal_feeds.texts.ru import RU

COUNTED = re.compile(r"\[(\w+)((?:\|[^|\[\]]*)+)\]")
FORMS = {"en": 2, "ru": 3}


def values_of(text):
    named = {name for _, name, _, _ in Formatter().parse(COUNTED.sub("", text)) if name is not None}
    return named | {name for name, _ in COUNTED.findall(text)}


def test_each_language_has_its_words():
    assert set(TEXTS) == set(LANGUAGES)


def test_both_have_the_same_keys():
    assert set(EN) ^ set(RU) == set()


@pytest.mark.parametrize("key", sorted(EN))
def test_both_take_the_same_values(key):
    assert values_of(EN[key]) == values_of(RU[key])


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_counted_word_has_the_forms_of_its_language(lang):
    wrong = {
        key: text for key, text in TEXTS[lang].items() for _, forms in COUNTED.findall(text)
        if forms.count("|") != FORMS[lang]
    }  # fmt: skip
    assert wrong == {}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_message_can_be_said(lang):
    for key, text in TEXTS[lang].items():
        said = say(lang, key, **dict.fromkeys(values_of(text), 7))
        assert said
        assert not set(said) & set("[]{}|"), (key, said)


def test_a_value_is_put_in_as_it_is(monkeypatch):
    monkeypatch.setitem(EN, "x", "{name} has [count|one|{count}]")
    assert say("en", "x", name="{x} [count|a|b]", count=2) == "{x} [count|a|b] has 2"


@pytest.mark.parametrize(
    ("count", "which"),
    [(0, 2), (1, 0), (2, 1), (4, 1), (5, 2), (11, 2), (14, 2), (21, 0), (101, 0), (111, 2), (122, 1)],
)
def test_russian_counts(count, which):
    assert form("ru", count) == which


def test_every_error_that_has_words_is_raised():
    source = "".join(path.read_text("utf-8") for path in Path(signal_feeds.__file__).parent.rglob("*.py"))
    keys = {key.removeprefix("error.") for key in EN if key.startswith("error.")}
    assert {key for key in keys if f'"{key}"' not in source} == set()
    kinds = "|".join(
        kind.__name__ for kind in SignalError.__subclasses__() if kind not in (BadSettings, NotYet, Changed)
    )
    raised = re.findall(rf'(?:{kinds})\(\s*"([^"]*)"', source)
    assert len(raised) > 20
    assert set(raised) <= keys
