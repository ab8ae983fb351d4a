import random
import time

from hypothesis import given
from hypothesis import strategies as st

from signal_feeds.editing.diffs import words_between

texts = st.text(alphabet="ab .\n", max_size=60) | st.text(max_size=60)


@given(texts, texts)
def test_a_diff_spells_both_texts(old: str, new: str) -> None:
    parts = words_between(old, new)
    assert "".join(part.text for part in parts if part.op != "added") == old
    assert "".join(part.text for part in parts if part.op != "removed") == new
    assert all(part.text for part in parts)


@given(texts)
def test_the_same_text_has_no_changes(text: str) -> None:
    assert [part.op for part in words_between(text, text)] == (["same"] if text else [])


def test_words_change_whole() -> None:
    assert words_between("Он сказал «да».", "Он сказал «нет».") == (
        ("same", "Он сказал «"), ("removed", "да"), ("added", "нет"), ("same", "»."),
    )  # fmt: skip


def test_two_small_edits_far_apart_in_a_long_text_are_small() -> None:
    sentences = [f"This is sentence number {number} of a long text." for number in range(3_000)]
    edited = [*sentences]
    edited[10], edited[2_900] = "This is another one.", "And this too."
    parts = words_between(" ".join(sentences), " ".join(edited))
    assert sum(len(part.text) for part in parts if part.op != "same") < 200


def test_a_diff_of_two_huge_hostile_texts_ends_soon() -> None:
    chance = random.Random(1)
    words = [f"word{number}" for number in range(200)]
    begun = time.monotonic()
    words_between(*(" ".join(chance.choices(words, k=20_000)) for _ in range(2)))
    words_between("a b " * 500_000, "b a a " * 500_000)
    words_between("a\n" * 1_000, "b\na\n" * 500)
    words_between("a. b. " * 100_000, "b. b. a. " * 100_000)
    assert time.monotonic() - begun < 5
