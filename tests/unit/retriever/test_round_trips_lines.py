"""In text files, the lines at a quote's place contain the quote, below the headings that its section names."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

from citewire_retriever.ingest.chunks import Chunk
from proof_scale import ProofScale
from round_trips import QUOTES, Prose, Taken, by_line, check, chunks_of

Headings = Callable[[list[str]], Iterable[tuple[int, int, str]]]
"""Finds the headings among lines: (line number from 1, level, text)."""


def in_lines(headings: Headings | None = None, encoding: str = "utf-8") -> Taken:
    """Takes the lines of a place, and checks that the chunk's section has the headings above them."""

    def take(data: bytes, chunk: Chunk) -> str:
        lines = data.decode(encoding).split("\n")
        if headings is not None:
            path: dict[int, str] = {}
            for number, level, text in headings(lines):
                if number <= chunk.place.end_line:
                    path = {outer: label for outer, label in path.items() if outer < level} | {level: text}
            assert chunk.section == " > ".join(path.values()), chunk.place
        return "\n".join(lines[chunk.place.start_line - 1 : chunk.place.end_line])

    return take


def wrap_paragraph(choices: random.Random, text: str, before: str = "") -> str:
    """A paragraph on several lines, of which all but the first may be indented."""
    words = text.split(" ")
    lines: list[str] = []
    while words:
        count = choices.randint(3, 9)
        lines.append(" ".join(words[:count]))
        words = words[count:]
    return f"\n{before}".join(lines)


def sections(prose: Prose, heading: Callable[[int, str], str], blocks: list[Callable[[], str]]) -> str:
    """A text with sections of two levels, each with blocks of several kinds."""
    parts = [heading(1, f"Title {prose.name()}")]
    for number in range(7):
        parts.append(heading(2 + number % 2, f"Über {prose.name()}"))
        parts += [prose.choices.choice(blocks)() for _ in range(prose.choices.randint(2, 5))]
        parts.append(wrap_paragraph(prose.choices, prose.paragraph()))
    return "\n\n".join(parts) + "\n"


def code(prose: Prose) -> str:
    names = [prose.name() for _ in range(4)]
    return "\n".join(f"{name} = call_{number}('größe', \"年度\")" for number, name in enumerate(names))


def made_markdown(prose: Prose) -> str:
    words = prose.sentence
    return sections(
        prose,
        lambda level, text: f"{'#' * level} {text}",
        [
            lambda: wrap_paragraph(prose.choices, prose.paragraph()),
            lambda: "\n".join(f"- {wrap_paragraph(prose.choices, words(), '  ')}" for _ in range(3)),
            lambda: "\n".join(f"{number}. {words()}" for number in range(1, 4)),
            lambda: f"> {wrap_paragraph(prose.choices, prose.paragraph(), '> ')}",
            lambda: f"```python\n{code(prose)}\n```",
        ],
    )


def made_rst(prose: Prose) -> str:
    return sections(
        prose,
        lambda level, text: f"{text}\n{'=-~'[level - 1] * 30}",
        [
            lambda: wrap_paragraph(prose.choices, prose.paragraph()),
            lambda: "\n".join(f"* {wrap_paragraph(prose.choices, prose.sentence(), '  ')}" for _ in range(3)),
            lambda: f".. code-block:: python\n\n    {code(prose)}".replace("\n", "\n    "),
            lambda: f".. note:: {wrap_paragraph(prose.choices, prose.sentence(), '   ')}",
            lambda: f":term: {wrap_paragraph(prose.choices, prose.sentence(), '   ')}",
        ],
    )


def made_adoc(prose: Prose) -> str:
    return sections(
        prose,
        lambda level, text: f"{'=' * level} {text}",
        [
            lambda: wrap_paragraph(prose.choices, prose.paragraph()),
            lambda: "\n".join(f"* {prose.sentence()}" for _ in range(3)),
            lambda: f"[source,python]\n----\n{code(prose)}\n----",
            lambda: f"|===\n|{prose.name()} |{prose.sentence()}\n|===",
            lambda: f"NOTE: {prose.sentence()}",
        ],
    )


def made_org(prose: Prose) -> str:
    return sections(
        prose,
        lambda level, text: f"{'*' * level} {text}",
        [
            lambda: wrap_paragraph(prose.choices, prose.paragraph()),
            lambda: "\n".join(f"- {prose.sentence()}" for _ in range(3)),
            lambda: f"#+begin_src python\n{code(prose)}\n#+end_src",
            lambda: f"- {prose.name()} :: {prose.sentence()}",
        ],
    )


def made_settings(prose: Prose) -> str:
    def settings() -> str:
        return "\n".join(f'{prose.name()} = "{prose.sentence()}" # {prose.sentence()}' for _ in range(5))

    return f"{settings()}\n\n" + "\n".join(f"[{prose.name()}.{prose.name()}]\n{settings()}\n" for _ in range(12))


def bracketed_headings(lines: list[str]) -> Iterable[tuple[int, int, str]]:
    return [(number, 1, line.strip("[]")) for number, line in enumerate(lines, start=1) if line.startswith("[")]


def made_python(prose: Prose) -> str:
    parts = [f'"""{prose.sentence()}"""\n\nimport os\n']
    for _ in range(6):
        methods = "\n\n".join(
            f'    @staticmethod\n    def {prose.name()}(größe: int) -> str:\n        """{prose.sentence()}"""\n'
            + "".join(f"        {prose.name()} = '{prose.sentence('German', 'Chinese')}'\n" for _ in range(4))
            for _ in range(3)
        )
        parts.append(f"# {prose.sentence()}\nclass {prose.name()}:\n{methods}\n")
        parts.append(f"def {prose.name()}():\n    return {prose.sentence('English')!r}\n")
    return "\n\n".join(parts)


def made_go(prose: Prose) -> str:
    functions = (
        f"// {prose.sentence()}\nfunc {prose.name()}(größe int) string {{\n"
        + "".join(f'\t{prose.name()} := "{prose.sentence("Arabic", "German")}"\n' for _ in range(3))
        + '\treturn ""\n}\n'
        for _ in range(25)
    )
    return "package main\n\n" + "\n".join(functions)


def made_kotlin(prose: Prose) -> str:
    """Code in a language for which there is no grammar."""
    functions = (
        f"// {prose.sentence('English')}\nfun {prose.name()}(): String {{\n"
        + "".join(f'    val {prose.name()} = "{prose.sentence("Russian", "English")}"\n' for _ in range(3))
        + "}\n"
        for _ in range(25)
    )
    return "\n".join(functions)


def made_text(*scripts: str) -> Callable[[Prose], str]:
    return lambda prose: "\n\n".join(wrap_paragraph(prose.choices, prose.paragraph(*scripts)) for _ in range(40)) + "\n"


def after_signs(sign: str) -> Headings:
    """Headings that start with as many signs as their level."""
    pattern = re.compile(rf"({re.escape(sign)}{{1,6}}) (.+)")
    return lambda lines: [
        (number, len(match.group(1)), match.group(2))
        for number, line in enumerate(lines, start=1)
        if (match := pattern.fullmatch(line))
    ]


def underlined_headings(lines: list[str]) -> Iterable[tuple[int, int, str]]:
    for number, (line, below) in enumerate(pairwise(lines), start=1):
        if len(below) == 30 and below == below[0] * 30:
            yield number, "=-~".index(below[0]) + 1, line


MADE: dict[str, tuple[Callable[[Prose], str], str, Headings | None]] = {
    "a.md": (made_markdown, "utf-8", after_signs("#")),
    "a.rst": (made_rst, "utf-8", underlined_headings),
    "a.adoc": (made_adoc, "utf-8", after_signs("=")),
    "a.org": (made_org, "utf-8", after_signs("*")),
    "a.toml": (made_settings, "utf-8", bracketed_headings),
    "a.ini": (made_settings, "utf-8", bracketed_headings),
    "a.py": (made_python, "utf-8", None),
    "a.go": (made_go, "utf-8", None),
    "a.kt": (made_kotlin, "utf-8", None),
    "a.txt": (made_text(), "utf-8", None),
    "marked.txt": (made_text(), "utf-8-sig", None),
    "wide.txt": (made_text(), "utf-16", None),
    "western.txt": (made_text("German", "English"), "cp1252", None),
    "russian.txt": (made_text("Russian"), "koi8-r", None),
    "chinese.txt": (made_text("Chinese"), "gb18030", None),
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", MADE)
def test_each_quote_is_in_its_lines(name: str, ends: str, proof: ProofScale) -> None:
    make, encoding, headings = MADE[name]
    choices = proof.random()
    for _ in range(proof.pick(scaled_down=1, full=20)):
        data = make(Prose(choices)).replace("\n", ends).encode(encoding)
        unmarked = data.decode(encoding).replace("\r", "").encode()
        taken = in_lines(headings)
        assert check(data, name, lambda _, chunk, whole=unmarked, taken=taken: taken(whole, chunk), by_line) >= QUOTES


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.md", ["# Prices", "", "Below.", "", "| Name | Größe |", "|---|---|"], [""]),
        ("a.adoc", ["= Prices", "", "Below.", "", "|===", "| Name | Größe", ""], ["|===", ""]),
    ],
)
def test_rows_of_a_table_are_at_their_lines(name: str, before: list[str], after: list[str], proof: ProofScale) -> None:
    prose = Prose(proof.random())
    end = " |" if name == "a.md" else ""
    rows = [f"| {prose.name()} | {prose.sentence('Arabic', 'Chinese', 'German')}{end}" for _ in range(60)]
    text = "\n".join([*before, *rows, *after])

    def take(data: bytes, chunk: Chunk) -> str:
        lines = data.decode().split("\n")[chunk.place.start_line - 1 : chunk.place.end_line]
        names = ["Name", "Größe"]
        return "\n".join(
            f"{name}: {cell}" if line.startswith("| name") else line
            for line in lines
            for name, cell in zip(names, line.strip("| ").split(" | "), strict=False)
        )

    assert check(text.encode(), name, take, by_line) >= 2 * len(rows)


def test_code_is_in_the_class_that_its_section_names(proof: ProofScale) -> None:
    text = made_python(Prose(proof.random()))
    spans = [
        (node.name, node.lineno, node.end_lineno or 0)
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    ]
    sections_seen = 0
    for chunk in chunks_of(text.encode(), "a.py"):
        name = chunk.section.split(" > ")[0]
        within = next((span for span in spans if span[0] == name), None)
        if within is not None:
            assert within[1] <= chunk.place.start_line <= chunk.place.end_line <= within[2], chunk.place
            sections_seen += 1
    assert sections_seen >= len(spans)


def test_a_place_that_is_a_line_off_is_detected(proof: ProofScale) -> None:
    data = made_markdown(Prose(proof.random())).encode()

    def move(chunk: Chunk) -> list[Chunk]:
        lines = by_line(chunk)
        for line in lines:
            line.place.start_line += 1
            line.place.end_line += 1
        return lines

    with pytest.raises(AssertionError):
        check(data, "a.md", in_lines(), move)
