"""Sentences in several languages, with changes that make each false, for `benchmarks.verdicts`.

The sentences of `verdicts_languages.txt` say the same in every language: a limit, a duty, opening hours, a condition,
an increase. A line `# code` begins a language; the indented lines after a sentence are changes to try: the kind, words
of the sentence, and their replacement. `␣` is a space at an end.
"""

from pathlib import Path

LanguageChange = tuple[str, str, str]
"""Its kind, words of the sentence, and their replacement."""


def read_languages() -> dict[str, list[tuple[str, list[LanguageChange]]]]:
    """Returns each language's sentences with the changes to try."""
    languages: dict[str, list[tuple[str, list[LanguageChange]]]] = {}
    sentences: list[tuple[str, list[LanguageChange]]] = []
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            sentences = languages[line[2:]] = []
        elif line.startswith("  "):
            kind, old, new = (part.strip(" ").replace("␣", " ") for part in line.split("|"))
            sentences[-1][1].append((kind, old, new))
        else:
            sentences.append((line, []))
    return languages
