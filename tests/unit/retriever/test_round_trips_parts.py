"""In web pages, tables, subtitles, notebooks, mails and archives, the text at a quote's place contains the quote."""

from __future__ import annotations

import base64
import csv
import gzip
import html
import io
import json
import quopri
import re
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote, unquote

import pytest
from pdfminer.high_level import extract_text

from citewire_retriever.ingest.chunks import Chunk
from ingest_files import make_pdf, prose_page
from proof_scale import ProofScale
from round_trips import QUOTES, Prose, Taken, check, text_of_section
from zip_packages import tar_entry

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LINES = {*_HEADINGS, "p", "li", "pre", "caption", "tr", "blockquote", "dt", "dd", "br"}


def made_html(prose: Prose) -> bytes:
    def inline(text: str) -> str:
        """Words in elements and entities, as in real pages."""
        forms = ("{}", "{}", "<b>{}</b>", '<a href="#x">{}</a>', "<i>{}</i>")
        coded = (html.escape(word).replace("ö", "&ouml;").replace("年", "&#24180;") for word in text.split())
        return " ".join(prose.choices.choice(forms).format(word) for word in coded)

    def table() -> str:
        rows = "".join(f"<tr><td>{prose.name()}</td><td>{inline(prose.sentence())}</td></tr>" for _ in range(4))
        return f"<table><caption>{inline(prose.sentence())}</caption><tr><th>Name</th><th>Größe</th></tr>{rows}</table>"

    blocks: list[Callable[[], str]] = [
        lambda: f"<p>{inline(prose.paragraph())}<br>{inline(prose.sentence())}</p>",
        lambda: f"<ul>{''.join(f'<li>{inline(prose.sentence())}</li>' for _ in range(3))}</ul>",
        lambda: f"<pre>{prose.sentence('code')}\n  {prose.sentence('code')}</pre>",
        lambda: f"<blockquote>{inline(prose.sentence())}</blockquote>",
        lambda: f"<dl><dt>{prose.name()}</dt><dd>{inline(prose.sentence())}</dd></dl>",
        table,
    ]
    parts = [f"<h1>{inline(prose.sentence('German'))}</h1>"]
    for number in range(12):
        level = 2 + number % 2
        parts.append(f"<h{level}>{inline(prose.sentence())}</h{level}>")
        parts += [prose.choices.choice(blocks)() for _ in range(prose.choices.randint(1, 4))]
        parts.append(f"<p>{inline(prose.paragraph())}</p><script>not('read')</script>")
    return f"<!doctype html><html><head><title>T</title></head><body>{''.join(parts)}</body></html>".encode()


class _Page(HTMLParser):
    """The lines of a page, with the levels of its headings."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[int, str]] = [(0, "")]
        self.cell = -1
        self.is_open = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in _LINES:
            self.lines.append((_HEADINGS.get(tag, 0), ""))
        self.cell = {"tr": -1, "td": self.cell + 1}.get(tag, self.cell)
        if tag == "td":
            self.lines.append((0, f"{('Name', 'Größe')[self.cell]}: "))
        self.is_open = tag != "script"

    def handle_endtag(self, tag: str) -> None:
        self.is_open = True
        if tag in _LINES:
            self.lines.append((0, ""))

    def handle_data(self, data: str) -> None:
        if self.is_open:
            level, text = self.lines[-1]
            self.lines[-1] = (level, text + data)


def from_html(data: bytes, chunk: Chunk) -> str:
    page = _Page()
    page.feed(data.decode())
    return text_of_section(page.lines, chunk.section)


def made_sheet(delimiter: str) -> Callable[[Prose], bytes]:
    def make(prose: Prose) -> bytes:
        rows = io.StringIO()
        writer = csv.writer(rows, delimiter=delimiter)
        writer.writerow(["Name", "Größe; in cm", "note, long", "年度"])
        for number in range(50):
            text = prose.sentence() + (f'\n"{prose.sentence()}"' if number % 5 == 0 else "")
            writer.writerow([prose.name(), number / 8, text, prose.sentence("Chinese", "Arabic")])
            if number % 9 == 0:
                rows.write("\r\n")
        return rows.getvalue().encode()

    return make


def from_sheet(delimiter: str) -> Taken:
    def take(data: bytes, chunk: Chunk) -> str:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter))
        cells = zip(rows[0], rows[chunk.place.row - 1], strict=True)
        return "\n".join(f"{name}: {cell}" for name, cell in cells)

    return take


def made_subtitles(mark: str, start: str) -> Callable[[Prose], bytes]:
    def clock(milliseconds: int) -> str:
        seconds, rest = divmod(milliseconds, 1000)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{mark}{rest:03}"

    def make(prose: Prose) -> bytes:
        now, cues = 0, [start] if start else []
        for number in range(1, 90):
            first = now + prose.choices.randint(0, 6000)
            now = first + prose.choices.randint(400, 5000)
            words = prose.sentence().removesuffix("." if number % 3 else "")
            cues.append(f"{number}\n{clock(first)} --> {clock(now)}\n<i>{words}</i>\n{prose.sentence('German')}")
        return "\n\n".join(cues).encode()

    return make


def from_subtitles(data: bytes, chunk: Chunk) -> str:
    """The text between two times, inclusive."""
    spoken: list[str] = []
    for cue in data.decode().split("\n\n"):
        lines = cue.split("\n")
        if len(lines) > 2:
            start, end = (_seconds(time) for time in lines[1].split(" --> "))
            if chunk.place.start_seconds <= start and end <= chunk.place.end_seconds:
                spoken.append(re.sub("</?i>", "", " ".join(lines[2:])))
    return " ".join(spoken)


def _seconds(clock: str) -> float:
    hours, minutes, seconds = clock.replace(",", ".").split(":")
    return round(int(hours) * 3600 + int(minutes) * 60 + float(seconds), 3)


def made_notebook(prose: Prose) -> bytes:
    def cell(number: int) -> dict[str, object]:
        if number % 3 == 0:
            return {"cell_type": "markdown", "source": f"## {prose.name()}\n\n{prose.paragraph()}"}
        lines = [f"{prose.name()} = '{prose.sentence('German', 'Chinese')}'\n" for _ in range(3)]
        output = {"output_type": "stream", "name": "stdout", "text": [f"{prose.sentence()}\n", prose.sentence()]}
        return {"cell_type": "code", "source": lines, "outputs": [output]}

    return json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell(number) for number in range(30)]}).encode()


def from_notebook(data: bytes, chunk: Chunk) -> str:
    cell = json.loads(data)["cells"][chunk.place.cell - 1]
    return "\n".join(["".join(cell["source"]), *("".join(output["text"]) for output in cell.get("outputs", []))])


def made_pages(prose: Prose) -> bytes:
    def lines() -> list[str]:
        return [prose.sentence("English") for _ in range(4)]

    return make_pdf([prose_page(prose.name(), [lines(), lines()]) for _ in range(12)])


def from_pages(data: bytes, chunk: Chunk) -> str:
    return extract_text(io.BytesIO(data), page_numbers=[chunk.place.page - 1])


_PARTS: dict[str, tuple[Callable[[Prose], bytes], Taken]] = {
    "Preise (März).csv": (made_sheet(","), from_sheet(",")),
    "page.html": (made_html, from_html),
    "talk.srt": (made_subtitles(",", ""), from_subtitles),
    "work.ipynb": (made_notebook, from_notebook),
    "travel.pdf": (made_pages, from_pages),
}
"""Files within files."""


def files_of(prose: Prose) -> dict[str, bytes]:
    """A file of each of these formats, and a text file."""
    return {"read me.txt": prose.paragraph().encode(), **{name: make(prose) for name, (make, _) in _PARTS.items()}}


def from_part(files: dict[str, bytes], chunk: Chunk) -> str:
    """Takes the text from the file that a place names, according to its format; the file's name is the heading."""
    name = chunk.place.part.rpartition("/")[2]
    data = files[chunk.place.part]
    if name not in _PARTS:
        return f"{chunk.place.part}\n{data.decode()}"
    section = chunk.section.removeprefix(name).removeprefix(" > ")
    return f"{chunk.place.part}\n{_PARTS[name][1](data, replace(chunk, section=section))}"


def made_zip(prose: Prose) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files_of(prose).items():
            archive.writestr(f"Übersicht/{name}", content)
    return data.getvalue()


def from_zip(data: bytes, chunk: Chunk) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return from_part({name: archive.read(name) for name in archive.namelist()}, chunk)


def made_tar(prose: Prose) -> bytes:
    return gzip.compress(
        b"".join(tar_entry(f"deep/{name}", data) for name, data in files_of(prose).items()) + bytes(1024)
    )


def from_tar(data: bytes, chunk: Chunk) -> str:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        read = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return from_part({name: file.read() for name, file in read.items() if file is not None}, chunk)


def _coded(word: str) -> str:
    return f"=?utf-8?b?{base64.b64encode(word.encode()).decode()}?="


def made_mail(prose: Prose) -> bytes:
    """A message as sent by mail programs, written line by line, with another in it and files in both."""

    def message(subject: str, files: dict[str, bytes], more: bytes = b"") -> bytes:
        mark = prose.name()
        head = [
            f"From: {_coded('Jürgen Groß')} <j@a.example>",
            f"Subject: {_coded(subject)}",
            "MIME-Version: 1.0",
            f'Content-Type: multipart/mixed; boundary="{mark}"',
        ]
        body = "\n\n".join(prose.paragraph() for _ in range(12)).encode()
        parts = [
            b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
            + quopri.encodestring(body)
        ]
        for name, data in files.items():
            parts.append(
                f"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
                f"Content-Disposition: attachment; filename*=utf-8''{quote(name)}\r\n\r\n".encode()
                + base64.encodebytes(data)
            )
        if more:
            parts.append(b"Content-Type: message/rfc822\r\n\r\n" + more)
        divider = f"\r\n--{mark}".encode()
        return (
            "\r\n".join(head).encode()
            + b"\r\n"
            + b"".join(divider + b"\r\n" + part for part in parts)
            + divider
            + b"--"
        )

    return message("Größe und 年度", files_of(prose), message("Inner", {"read me.txt": prose.paragraph().encode()}))


def from_mail(data: bytes, chunk: Chunk) -> str:
    return from_part(_mail_files(data.replace(b"\r\n", b"\n"), ""), chunk)


def _mail_files(message: bytes, part: str) -> dict[str, bytes]:
    """Texts and attachments of a message and of the messages in it, by part."""
    head = message.partition(b"\n\n")[0]
    mark = re.findall(rb'boundary="(\w+)"', head)[0]
    words = re.sub(rb"=\?utf-8\?b\?(.*?)\?=", lambda match: base64.b64decode(match.group(1)), head)
    text, names, files = [words], list[str](), dict[str, bytes]()
    for piece in message.split(b"\n--" + mark)[1:-1]:
        kind, _, body = piece.partition(b"\n\n")
        if b"quoted-printable" in kind:
            text.append(quopri.decodestring(body))
        elif b"rfc822" in kind:
            files |= _mail_files(body, "Inner.eml")
            names.append("Inner.eml")
        else:
            names.append(unquote(re.findall(rb"utf-8''(\S+)", kind)[0].decode()))
            files[f"{part}/{names[-1]}".strip("/")] = base64.decodebytes(body)
    text.append(f"Attachments: {', '.join(names)}\n{part}".encode())
    return files | {part: b"\n".join(text)}


MADE: dict[str, tuple[Callable[[Prose], bytes], Taken]] = {
    "a.html": (made_html, from_html),
    "a.csv": (made_sheet(","), from_sheet(",")),
    "semicolons.csv": (made_sheet(";"), from_sheet(";")),
    "a.tsv": (made_sheet("\t"), from_sheet("\t")),
    "a.srt": (made_subtitles(",", ""), from_subtitles),
    "a.vtt": (made_subtitles(".", "WEBVTT"), from_subtitles),
    "a.ipynb": (made_notebook, from_notebook),
    "a.pdf": (made_pages, from_pages),
    "a.zip": (made_zip, from_zip),
    "a.tar.gz": (made_tar, from_tar),
    "a.eml": (made_mail, from_mail),
}


@pytest.mark.parametrize("name", MADE)
def test_each_quote_is_at_its_place(name: str, proof: ProofScale) -> None:
    make, taken = MADE[name]
    choices = proof.random()
    for _ in range(proof.pick(scaled_down=1, full=10)):
        assert check(make(Prose(choices)), name, taken) >= QUOTES
