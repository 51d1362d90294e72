"""Small files of every supported format, each different from all others, and some unreadable ones."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from html import escape
from random import Random

from citewire_retriever.ingest.detect import LANGUAGES
from ingest_files import make_pdf, prose_page
from ingest_harness import article
from scanned_pages import as_image, picture
from zip_packages import docx, epub, odf, package, paragraph, pptx, tar_entry, xlsx


def make_file(choices: Random, number: int) -> tuple[str, bytes]:
    """A file of the next format in turn: its name and content."""
    suffix, make = list(_MAKERS.items())[number % len(_MAKERS)]
    if make is _code:
        suffix = choices.choice([suffixes[0].removeprefix(".") for suffixes in LANGUAGES.values()])
    name = f"matter{number}"
    lines = [f"Sentence {index} of {name} says {choices.randrange(10**6)}." for index in range(choices.randint(1, 24))]
    return f"{name}.{suffix}", make(name, lines)


def format_count() -> int:
    """Number of formats: all programming languages count as one, and unreadable files as several."""
    return len(_MAKERS)


Maker = Callable[[str, list[str]], bytes]


def _text(_: str, lines: list[str]) -> bytes:
    return "\n\n".join(lines).encode()


def _markdown(name: str, lines: list[str]) -> bytes:
    return (article(2, name=name) + "\n\n".join(lines)).encode()


def _html(name: str, lines: list[str]) -> bytes:
    body = "".join(f"<h2>{line[:12]}</h2><p>{line}</p>" for line in lines)
    return f"<!doctype html><title>{name}</title><body>{body}</body>".encode()


def _rows(divider: str) -> Maker:
    def make(name: str, lines: list[str]) -> bytes:
        rows = [f"{name}{divider}{number}{divider}{line}" for number, line in enumerate(lines)]
        return "\n".join([divider.join(("Name", "Number", "Note")), *rows]).encode()

    return make


def _pdf(name: str, lines: list[str]) -> bytes:
    return make_pdf([prose_page(f"{name} {page}", [lines[page : page + 8]]) for page in range(0, len(lines), 8)])


def _docx(_: str, lines: list[str]) -> bytes:
    return docx("".join(paragraph(line) for line in lines))


def _xlsx(name: str, lines: list[str]) -> bytes:
    cells = [f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in ("Note of " + name, *lines)]
    return xlsx("".join(f"<row>{cell}<c><v>{number}</v></c></row>" for number, cell in enumerate(cells)))


def _pptx(_: str, lines: list[str]) -> bytes:
    return pptx(*(f"<sp><p><r><t>{line}</t></r></p></sp>" for line in lines))


def _odt(_: str, lines: list[str]) -> bytes:
    return odf("text", "".join(f"<text:p>{line}</text:p>" for line in lines))


def _ods(_: str, lines: list[str]) -> bytes:
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    rows = "".join(f"<table:table-row>{cell.format(line)}</table:table-row>" for line in ("Note", *lines))
    return odf("spreadsheet", f'<table:table table:name="S">{rows}</table:table>')


def _odp(_: str, lines: list[str]) -> bytes:
    frame = "<draw:page><draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame></draw:page>"
    return odf("presentation", "".join(frame.format(line) for line in lines))


def _epub(name: str, lines: list[str]) -> bytes:
    return epub({f"{number}.xhtml": _html(name, [line]).decode() for number, line in enumerate(lines)})


def _rtf(_: str, lines: list[str]) -> bytes:
    return (r"{\rtf1\ansi " + r"\par ".join(lines) + "}").encode()


def _mail(name: str, lines: list[str]) -> bytes:
    head = f"From: a@b.example\nTo: c@d.example\nSubject: {name}\nMIME-Version: 1.0\n"
    parts = f"--m\nContent-Type: text/plain\n\n{lines[0]}\n"
    attached = f'--m\nContent-Type: text/csv; name="a.csv"\n\n{_rows(",")(name, lines).decode()}\n--m--\n'
    return f'{head}Content-Type: multipart/mixed; boundary="m"\n\n{parts}{attached}'.encode()


def _notebook(_: str, lines: list[str]) -> bytes:
    cells: list[dict[str, object]] = [{"cell_type": "markdown", "source": line} for line in lines]
    cells.append({"cell_type": "code", "source": "1 + 1", "outputs": [{"data": {"text/plain": "2"}}]})
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


def _records(name: str, lines: list[str]) -> list[dict[str, object]]:
    return [{"name": name, "number": number, "note": line} for number, line in enumerate(lines)]


def _json(name: str, lines: list[str]) -> bytes:
    return json.dumps(_records(name, lines)).encode()


def _jsonl(name: str, lines: list[str]) -> bytes:
    return "\n".join(json.dumps(record) for record in _records(name, lines)).encode()


def _yaml(name: str, lines: list[str]) -> bytes:
    return "".join(f"- name: {name}\n  note: {json.dumps(line)}\n" for line in lines).encode()


def _xml(name: str, lines: list[str]) -> bytes:
    return f"<all>{''.join(f'<note of={json.dumps(name)}>{escape(line)}</note>' for line in lines)}</all>".encode()


def _titled(title: str, heading: str) -> Maker:
    def make(name: str, lines: list[str]) -> bytes:
        return (title.format(name) + "\n\n".join(heading.format(line) for line in lines) + "\n").encode()

    return make


def _subtitles(start: str, comma: str) -> Maker:
    def make(_: str, lines: list[str]) -> bytes:
        times = [f"00:00:{second:02}{comma}000 --> 00:00:{second:02}{comma}900" for second in range(len(lines))]
        return (start + "".join(f"{time}\n{line}\n\n" for time, line in zip(times, lines, strict=True))).encode()

    return make


def _code(_: str, lines: list[str]) -> bytes:
    return "".join(f"# {line}\nclass A{number} {{ f() {{ }} }}\n" for number, line in enumerate(lines)).encode()


def _zip(name: str, lines: list[str]) -> bytes:
    return package({"a.txt": _text(name, lines), "b/c.csv": _rows(",")(name, lines), "d.docx": _docx(name, lines)})


def _tar(name: str, lines: list[str]) -> bytes:
    return tar_entry("a.md", _markdown(name, lines)) + tar_entry("b.txt", _text(name, lines)) + bytes(1024)


def _scan(kind: str) -> Maker:
    """An image of text, which has no text without Tesseract; a TIFF has 8 MiB."""
    return lambda name, _: as_image(picture(name) if kind == "TIFF" else picture(name).reduce(4), kind)


def _cut_off(make: Maker) -> Maker:
    """A file that ends in the middle."""

    def cut(name: str, lines: list[str]) -> bytes:
        whole = make(name, lines)
        return whole[: len(whole) // 2]

    return cut


def _blank(name: str, _: list[str]) -> bytes:
    return b" \n" * (100 + int(name.removeprefix("matter")))


_MAKERS: dict[str, Maker] = {
    "txt": _text, "md": _markdown, "html": _html, "csv": _rows(","), "tsv": _rows("\t"), "psv": _rows("|"),
    "pdf": _pdf, "docx": _docx, "xlsx": _xlsx, "pptx": _pptx, "odt": _odt, "ods": _ods, "odp": _odp, "epub": _epub,
    "rtf": _rtf, "eml": _mail, "ipynb": _notebook, "json": _json, "jsonl": _jsonl, "yaml": _yaml, "xml": _xml,
    "rst": _titled("{}\n========\n\n", "{}"), "adoc": _titled("= {}\n\n", "== {}"),
    "org": _titled("#+TITLE: {}\n", "* {}"),
    "srt": _subtitles("1\n", ","), "vtt": _subtitles("WEBVTT\n\n", "."),
    "zip": _zip, "tar": _tar,
    "txt.gz": lambda name, lines: gzip.compress(_text(name, lines)),
    "tar.bz2": lambda name, lines: bz2.compress(_tar(name, lines)),
    "md.xz": lambda name, lines: lzma.compress(_markdown(name, lines)),
    "code": _code,
    "png": _scan("PNG"), "jpg": _scan("JPEG"), "tiff": _scan("TIFF"), "webp": _scan("WEBP"),
    "half.docx": _cut_off(_docx), "half.xlsx": _cut_off(_xlsx), "half.pdf": _cut_off(_pdf), "half.zip": _cut_off(_zip),
    "blank.md": _blank,
}  # fmt: skip
"""Builders by file extension."""
