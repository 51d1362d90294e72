"""The steps and memory that reading a passage takes: steps are counted, not timed."""

from __future__ import annotations

import random
import string
import tracemalloc

from citewire_verify import Passage
from citewire_verify.passages import PassageIndex
from steps import count_steps

MOST_STEPS = 24.0
"""The most steps per character of a page of prose."""
WORDS = 40
LENGTH = 50_000
LEFT = 500_000
"""The bytes that reading may leave in caches of bounded size: a fifth of the text."""


def page(sentences: int) -> str:
    """Prose with names, numbers, dates and negations."""
    draw = random.Random(1)
    nouns = [
        "lighthouse",
        "keeper",
        "harbour",
        "storm",
        "letter",
        "island",
        "captain",
        "winter",
        "village",
        "school",
        "engine",
        "bridge",
    ]
    return "\n".join(
        f"In {draw.randint(1800, 2020)} the {draw.choice(nouns)} of Port {draw.choice(nouns).title()} was not far from "
        f"the {draw.choice(nouns)}, and {draw.randint(2, 900)} people saw its {draw.choice(nouns)} on 3 May."
        for _ in range(sentences)
    )


def test_a_passage_is_read_in_few_steps() -> None:
    text = page(60)
    PassageIndex(Passage(text))  # fills the cache of word forms
    steps = count_steps(lambda: PassageIndex(Passage(text)))
    assert steps / len(text) < MOST_STEPS


def test_long_words_leave_nothing_in_memory() -> None:
    draw = random.Random(1)
    PassageIndex(Passage("Warm up."))
    tracemalloc.start()
    try:
        for _ in range(WORDS):
            PassageIndex(Passage("".join(draw.choices(string.ascii_lowercase, k=LENGTH))))
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < LEFT
