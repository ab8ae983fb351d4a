"""What changed between two texts, by words."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

Op = Literal["same", "removed", "added"]
MOST_PIECES, MOST_PAIRS = 8_000, 200_000
"""Of sentences or words, and of equal ones on both sides: more are shown as replaced, for difflib is quadratic."""
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_SENTENCES = re.compile(r"[^\n.!?…]+[\n.!?…]*\s*|[\n.!?…]+\s*")


class Part(NamedTuple):
    """A stretch of text: in both, in the old one only, in the new one only."""

    op: Op
    text: str


class Diff(NamedTuple):
    """Each field of an entry, as parts that spell the old text without `added`, the new one without `removed`."""

    title: tuple[Part, ...]
    link: tuple[Part, ...]
    text: tuple[Part, ...]


def words_between(old: str, new: str) -> tuple[Part, ...]:
    """The parts that lead from one text to the other: first by sentences, then by words where those differ.

    >>> [tuple(part) for part in words_between("a red fox", "a blue fox")]
    [('same', 'a '), ('removed', 'red'), ('added', 'blue'), ('same', ' fox')]
    """
    parts: list[Part] = []
    for op, before, after in _pieces(_SENTENCES.findall(old), _SENTENCES.findall(new)):
        if op == "same":
            parts.append(Part("same", before))
        else:
            parts += _by_words(before, after)
    return tuple(_joined(parts))


def _by_words(old: str, new: str) -> Iterator[Part]:
    for op, before, after in _pieces(_WORDS.findall(old), _WORDS.findall(new)):
        if op == "same":
            yield Part("same", before)
        else:
            yield Part("removed", before)
            yield Part("added", after)


def _pieces(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Literal["same", "other"], str, str]]:
    """Stretches that are the same or not, in order. The ends, mostly alike, are cut off before anything is compared."""
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    yield "same", "".join(old[:start]), ""
    middle, other = old[start : len(old) - end], new[start : len(new) - end]
    if _is_much(middle, other):
        yield "other", "".join(middle), "".join(other)
    else:
        for tag, a, b, c, d in SequenceMatcher(None, middle, other).get_opcodes():
            yield "same" if tag == "equal" else "other", "".join(middle[a:b]), "".join(other[c:d])
    yield "same", "".join(old[len(old) - end :]), ""


def _is_much(old: Sequence[str], new: Sequence[str]) -> bool:
    counts = Counter(new)
    return len(old) + len(new) > MOST_PIECES or sum(counts[piece] for piece in old) > MOST_PAIRS


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many pieces at the beginning are the same."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _joined(parts: list[Part]) -> Iterator[Part]:
    """Without empty parts, and those of one kind beside each other as one; what was removed before what was added."""
    kept: list[Part] = []
    for part in parts:
        if not part.text:
            continue
        if kept and kept[-1].op == part.op:
            kept[-1] = Part(part.op, kept[-1].text + part.text)
        else:
            kept.append(part)
    yield from kept
