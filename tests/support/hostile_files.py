"""Files of any size that could slow readers down: an algorithm might traverse their structure again for each part."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable

from ingest_files import make_pdf
from outlook_files import compound_file, message
from zip_packages import docx, epub, odf, package, paragraph, pptx, tar_entry, xlsx

Hostile = Callable[[int], tuple[str, bytes]]
"""Makes a file of about this many bytes; returns its name and content."""


def _repeated(name: str, piece: str, *, before: str = "", after: str = "") -> Hostile:
    """A file with one piece repeated."""

    def make(size: int) -> tuple[str, bytes]:
        count = max(1, (size - len(before) - len(after)) // len(piece.encode()))
        return name, f"{before}{piece * count}{after}".encode()

    return make


def _numbered(name: str, piece: str, *, before: str = "", after: str = "") -> Hostile:
    """A file of pieces that differ in a number."""

    def make(size: int) -> tuple[str, bytes]:
        count = max(1, size // len(piece.format(100_000)))
        return name, (before + "".join(piece.format(index) for index in range(count)) + after).encode()

    return make


def _nested(name: str, opening: str, closing: str, inside: str = "x", *, most: int | None = None) -> Hostile:
    """A file of nested elements; if `most` is the greatest depth, several such towers follow each other."""

    def make(size: int) -> tuple[str, bytes]:
        depth = max(1, size // len(opening + closing))
        if most is None or depth <= most:
            return name, f"{opening * depth}{inside}{closing * depth}".encode()
        tower = f"{opening * most}{inside}{closing * most}\n"
        return name, (tower * (size // len(tower))).encode()

    return make


def _indented_list(size: int) -> tuple[str, bytes]:
    lines: list[str] = []
    length = depth = 0
    while length < size:
        lines.append(f"{'  ' * depth}- item of level {depth}\n")
        length += len(lines[-1])
        depth = (depth + 1) % 30
    return "a.md", "".join(lines).encode()


def _deep_data(size: int) -> tuple[str, bytes]:
    return "a.json", b'{"a":[' * (size // 8) + b"1" + b"]}" * (size // 8)


def _notebook(cell: str) -> Hostile:
    """A notebook with one cell repeated."""

    def make(size: int) -> tuple[str, bytes]:
        return "a.ipynb", f'{{"cells":[{",".join([cell] * max(1, size // len(cell)))}]}}'.encode()

    return make


def _wide_sheet(size: int) -> tuple[str, bytes]:
    columns = max(2, size // 12)
    return "a.csv", (",".join(f"c{index}" for index in range(columns)) + "\n" + ",".join("1" * columns) + "\n").encode()


def _wide_markdown_table(size: int) -> tuple[str, bytes]:
    columns = max(2, size // 12)
    return "a.md", f"{'|aa' * columns}|\n{'|--' * columns}|\n{'|b1' * columns}|\n".encode()


_WORD_ROW = f"<w:tr><w:tc>{paragraph('a')}</w:tc><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc></w:tr>"


def _document(piece: str, *, before: str = "", after: str = "") -> Hostile:
    """A Word document with one piece repeated; the size is that of the text, as the file is compressed."""
    return lambda size: ("a.docx", docx(before + piece * (size // len(piece)) + after))


_OPEN_ROW = (
    '<table:table-row><table:table-cell table:number-rows-spanned="9"><text:p>a</text:p></table:table-cell>'
    "<table:table-cell><text:p>1</text:p></table:table-cell></table:table-row>"
)


def _open(kind: str, piece: str, *, before: str = "", after: str = "") -> Hostile:
    """An OpenDocument file with one piece repeated."""
    name = {"text": "a.odt", "spreadsheet": "a.ods", "presentation": "a.odp"}[kind]
    return lambda size: (name, odf(kind, before + piece * (size // len(piece)) + after))


def _chapter(piece: str) -> Hostile:
    """An e-book of one chapter with one piece repeated."""
    return lambda size: ("a.epub", epub({"c.xhtml": f"<html><body><p>x{piece * (size // len(piece))}</body></html>"}))


def _slide(piece: str, *, before: str = "", after: str = "") -> Hostile:
    """A presentation of one slide with one piece repeated."""
    return lambda size: ("a.pptx", pptx(before + piece * (size // len(piece)) + after))


def _workbook(piece: str, *, before: str = "", after: str = "", behind: str = "") -> Hostile:
    """A workbook with one piece repeated, and `behind` as often after its rows."""

    def make(size: int) -> tuple[str, bytes]:
        count = size // len(piece + behind)
        return "a.xlsx", xlsx(before + piece * count + after, behind=behind * count)

    return make


def _many_pages(size: int) -> tuple[str, bytes]:
    return "a.pdf", make_pdf([[(72, 700, 10, "regular", f"Page {index} says this.")] for index in range(size // 350)])


def _marked_page(size: int) -> tuple[str, bytes]:
    """Many bookmarks to the same page of many lines."""
    count = max(3, size // 300)
    lines = [(72.0, 800 - 14.0 * index, 10.0, "regular", f"Line number {index}.") for index in range(count)]
    return "a.pdf", make_pdf([lines], outline=[(f"Line number {index}.", 0) for index in range(count)])


def _many_outlined_pages(size: int) -> tuple[str, bytes]:
    count = max(3, size // 450)
    pages = [[(72.0, 700.0, 10.0, "regular", f"Part {index}.")] for index in range(count)]
    return "a.pdf", make_pdf(pages, outline=[(f"Part {index}.", index) for index in range(count)])


def _long_paragraph(size: int) -> tuple[str, bytes]:
    """A page with one paragraph, each of whose lines ends in a hyphenated word."""
    count = max(3, size // 60)
    lines = [(72.0, 700 - 12.0 * index, 10.0, "regular", f"and so {index} goes on-") for index in range(count)]
    return "a.pdf", make_pdf([lines])


def _nested_objects(size: int) -> tuple[str, bytes]:
    """A PDF whose page has deeply nested arrays."""
    whole = make_pdf([[(72, 700, 10, "regular", "Some text.")]])
    depth = size // 2
    return "a.pdf", whole.replace(b"/MediaBox", b"/Odd " + b"[" * depth + b"]" * depth + b" /MediaBox", 1)


_MULTIPART = "Subject: a\nContent-Type: multipart/mixed; boundary=m\n\n"
_ATTACHED = "--m\nContent-Type: text/plain; name=a.txt\n\ntext\n"


def _tar(kind: bytes, content: bytes = b"") -> Hostile:
    """A TAR archive with one header and its content repeated."""

    def make(size: int) -> tuple[str, bytes]:
        entry = tar_entry(f"a{kind.decode()}.txt", content, kind)
        return "a.tar", entry * max(1, size // len(entry)) + tar_entry("b.txt", b"text") + bytes(1024)

    return make


def _long_header(size: int) -> tuple[str, bytes]:
    header = tar_entry("x", b"1" * min(size, 60_000), b"x")
    return "a.tar", header * max(1, size // len(header)) + tar_entry("b.txt", b"text")


def _archive(name: str, piece: bytes, *, most: int = 9000) -> Hostile:
    """An archive of many files."""
    return lambda size: ("a.zip", package({f"{index}{name}": piece for index in range(min(most, size // 100))}))


def _message(size: int) -> tuple[str, bytes]:
    """A message with as many attachments as fit."""
    return "a.msg", compound_file(message("S", "Text", {f"{number}.txt": b"word" for number in range(size // 750)}))


HOSTILE: dict[str, Hostile] = {
    "outlook: attachments": _message,
    "RTF: groups": _nested("a.rtf", "{\\b ", "}", most=200),
    "RTF: bytes of characters": _repeated("a.rtf", "\\'fc", before="{\\rtf1 ", after="}"),
    "RTF: Unicode": _repeated("a.rtf", "\\u8364?", before="{\\rtf1 ", after="}"),
    "RTF: rows": _repeated("a.rtf", "\\intbl a\\cell b\\cell\\row", before="{\\rtf1 ", after="}"),
    "RTF: paragraphs": _repeated("a.rtf", "Some words.\\par\n", before="{\\rtf1 ", after="}"),
    "EPUB: self-closed elements": _chapter("<p/><i/>a"),
    "EPUB: half-closed elements": _chapter("<a "),
    "OpenDocument: paragraphs": _open("text", "<text:p>Some <text:s/>words.</text:p>"),
    "OpenDocument: lists": _open(
        "text", "<text:list-item><text:p>a</text:p></text:list-item>", before="<text:list>", after="</text:list>"
    ),
    "OpenDocument: rows": _open("spreadsheet", _OPEN_ROW, before="<table:table>", after="</table:table>"),
    "OpenDocument: rows of a table": _open("text", _OPEN_ROW, before="<table:table>", after="</table:table>"),
    "OpenDocument: shapes": _open(
        "presentation", "<draw:frame><text:p>a</text:p></draw:frame>", before="<draw:page>", after="</draw:page>"
    ),
    "PowerPoint: paragraphs": _slide("<p><r><t>Some words.</t></r></p>", before="<sp>", after="</sp>"),
    "PowerPoint: shapes": _slide("<sp><ph type='title'/><p><r><t>a</t></r></p></sp>"),
    "PowerPoint: rows of a table": _slide(
        "<tr><tc/><tc vMerge='1'/><tc><p><r><t>a</t></r></p></tc></tr>",
        before="<graphicFrame><tbl>",
        after="</tbl></graphicFrame>",
    ),
    "Excel: rows": _workbook("<row><c><v>1.5</v></c><c><v>2</v></c></row>"),
    "Excel: cells of a row": _workbook('<c t="inlineStr"><is><t>a</t></is></c>', before="<row>", after="</row>"),
    "Excel: merged cells": _workbook("<row><c><v>1</v></c></row>", behind='<mergeCell ref="A1:A1048576"/>'),
    "Word: paragraphs": _document(paragraph("Some words, and more of them.")),
    "Word: runs": _document("<w:r><w:t>a </w:t></w:r>", before="<w:p>", after="</w:p>"),
    "Word: rows of a table": _document(_WORD_ROW, before="<w:tbl>", after="</w:tbl>"),
    "Word: cells of a row": _document("<w:tc><w:p/></w:tc>", before="<w:tbl><w:tr>", after="</w:tr></w:tbl>"),
    "Word: text boxes": _document(
        "<w:txbxContent><w:p><w:r><w:t>a</w:t></w:r></w:p></w:txbxContent>", before="<w:p>", after="</w:p>"
    ),
    "HTML: nested tables": _nested("a.html", "<table><tr><td>a<td>", "</table>", most=None),
    "HTML: towers of tables": _nested("a.html", "<table><tr><td>a</td><td>", "</td></tr></table>", most=200),
    "HTML: nested lists": _nested("a.html", "<ul><li>a", "</li></ul>", most=200),
    "HTML: lists of links in a header": _nested("a.html", "<header><ul><li><a>a</a>", "</li></ul></header>", most=100),
    "HTML: unclosed elements": _repeated("a.html", "<b><i>x"),
    "HTML: unclosed paragraphs": _repeated("a.html", "<p>some words "),
    "HTML: rows of a table": _repeated("a.html", "<tr><td>a</td><td>b</td></tr>", before="<table>", after="</table>"),
    "HTML: cells of a row": _numbered("a.html", "<td>{}</td>", before="<table><tr>"),
    "HTML: heads of a table": _numbered("a.html", "<tr><th>a{0}</th><th>b{0}</th></tr>", before="<table>"),
    "HTML: wide cells": _repeated("a.html", "<tr><td rowspan=1000>a</td><td>b</td></tr>", before="<table>"),
    "HTML: inline elements": _repeated("a.html", "<span>x</span> ", before="<p>"),
    "HTML: empty titles": _repeated("a.html", "<h1></h1><title></title>", after="<p>x"),
    "HTML: white space": _repeated("a.html", " \t", before="<p>x", after="y"),
    "HTML: opening brackets": _repeated("a.html", "<"),
    "Markdown: rows of a table": _numbered("a.md", "| {} | some words |\n", before="| a | b |\n|---|---|\n"),
    "Markdown: tables": _repeated("a.md", "| a | b |\n|---|---|\n| 1 | 2 |\n\n"),
    "Markdown: columns of a table": _wide_markdown_table,
    "Markdown: headings": _numbered("a.md", "# Heading {}\n\n"),
    "Markdown: underlined headings": _numbered("a.md", "Heading {}\n===\n"),
    "Markdown: lines of a paragraph": _repeated("a.md", "some words of a line\n"),
    "Markdown: nested lists": _indented_list,
    "Markdown: items of a list": _repeated("a.md", "- an item\n"),
    "Markdown: nested quotes": _nested("a.md", "> ", "\n", "x"),
    "Markdown: lines of a quote": _repeated("a.md", "> a line\n"),
    "Markdown: quotes in lists": _repeated("a.md", "> - > - a\n"),
    "Markdown: brackets in a heading": _repeated("a.md", "[", before="# a"),
    "Markdown: emphasis in a heading": _repeated("a.md", "*a **a ", before="# a"),
    "Markdown: backticks in a heading": lambda size: (
        "a.md",
        ("# a" + "".join(" " + "`" * (1 + n) for n in range(int((2 * size) ** 0.5)))).encode(),
    ),
    "Markdown: links in a heading": _repeated("a.md", "[a](<b", before="# a"),
    "Markdown: angles in a heading": _repeated("a.md", "<a ", before="# a"),
    "Markdown: link definitions": _numbered("a.md", "[a{}]: http://b\n"),
    "Markdown: unfinished definitions": _repeated("a.md", "[a]: \n"),
    "Markdown: fences": _repeated("a.md", "```\ncode\n```\n"),
    "Markdown: an open fence": _repeated("a.md", "code\n", before="```\n"),
    "Markdown: HTML blocks": _repeated("a.md", "<div>\nx\n"),
    "Markdown: HTML comments": _repeated("a.md", "<!-- \n\n"),
    "Markdown: open front matter": _repeated("a.md", "a: b\n", before="---\n"),
    "Markdown: rules": _repeated("a.md", "- - - a\n"),
    "Markdown: one long line": _repeated("a.md", "some words "),
    "text: lines": _repeated("a.txt", "some words of a line\n"),
    "text: paragraphs": _repeated("a.txt", "Some words. And a sentence.\n\n"),
    "text: one long line": _repeated("a.txt", "Some words. "),
    "text: one long word": _repeated("a.txt", "a"),
    "text: full stops": _repeated("a.txt", "."),
    "text: quotation marks": _repeated("a.txt", '."'),
    "text: references": _repeated("a.txt", ".[1, 2"),
    "text: white space": _repeated("a.txt", " ", before="a. ", after=" b"),
    "text: blank lines": _repeated("a.txt", " \n", before="a", after="b"),
    "text: full-width full stops": _repeated("a.txt", "。"),
    "text: western bytes": lambda size: ("a.txt", "caf\xe9 ".encode("latin-1") * (size // 5)),
    "text: mixed encodings": lambda size: ("a.txt", ("ü".encode() * 9 + b"\xfc ") * (size // 20)),
    "text: wide letters": lambda size: ("a.txt", "слово за ".encode("utf-16-le") * (size // 18)),
    "text: cyrillic bytes": lambda size: ("a.txt", "слово за ".encode("cp1251") * (size // 9)),
    "JSON: deep": _deep_data,
    "JSON: one long line": _repeated("a.json", '{"a":1},'),
    "JSON: records": _numbered("a.json", '{{"id":{0},"name":"n{0}"}},', before="["),
    "JSON: lines": _numbered("a.jsonl", '{{"id":{0},"name":"n{0}"}}\n'),
    "JSON: many keys": lambda size: (
        "a.json",
        json.dumps({f"k{index}": index for index in range(size // 16)}).encode(),
    ),
    "JSON: lists of one": _nested("a.jsonl", "[", "]", "1", most=60),
    "JSON: open brackets": _repeated("a.json", "["),
    "JSON: backslashes": _repeated("a.json", "\\\\", before='["', after='"]'),
    "JSON: long keys": lambda size: ("a.json", json.dumps([{"k" * 1000: {"b": 1}}] * (size // 1020)).encode()),
    "JSON: large and small": _repeated("a.jsonl", f'{{"a":"{"some words " * 60}"}}\n3\n'),
    "YAML: items": _numbered("a.yaml", "- id: {0}\n  name: n{0}\n"),
    "YAML: anchors": _numbered("a.yaml", "k{0}: &a{0} v\nl{0}: *a{0}\n"),
    "YAML: laughs": _repeated("a.yaml", "- [*a, *a, *a, *a, *a, *a, *a]\n", before="- &a [x, x]\n"),
    "YAML: nested brackets": _nested("a.yaml", "[", "]"),
    "YAML: nested braces": _nested("a.yaml", "{a: ", "}"),
    "YAML: nested items": _nested("a.yaml", "- ", ""),
    "YAML: documents": _repeated("a.yaml", "--- a\n"),
    "YAML: folded lines": _repeated("a.yaml", "  some words\n\n", before="a: >\n"),
    "YAML: quotes": _repeated("a.yaml", "a\n", before="'", after="'"),
    "YAML: tags": _repeated("a.yaml", "- !<tag:a> b\n"),
    "XML: elements": _numbered("a.xml", "<item><id>{0}</id><name>n{0}</name></item>", before="<a>"),
    "XML: elements to their end": _repeated("a.xml", "<b>x</b>", before="<a>", after="</a>"),
    "XML: nested elements": _nested("a.xml", "<a>", "</a>"),
    "XML: attributes": _numbered("a.xml", "k{}='1' ", before="<a ", after="/>"),
    "XML: mixed text": _repeated("a.xml", "x<b>y</b>", before="<a>", after="</a>"),
    "XML: entities": _repeated("a.xml", "&e;", before='<!DOCTYPE a [<!ENTITY e "eeeeeeee">]><a>', after="</a>"),
    "XML: declared entities": _numbered("a.xml", "<!ENTITY e{} 'x'>", before="<!DOCTYPE a [", after="]><a>&e1;</a>"),
    "XML: comments": _repeated("a.xml", "<!-- c -->", before="<a>x", after="</a>"),
    "notebook: cells": _notebook('{"cell_type":"code","source":"x = 1"}'),
    "notebook: headings": _notebook('{"cell_type":"markdown","source":"# Heading"}'),
    "notebook: outputs": _notebook(
        '{"cell_type":"code","outputs":[{"output_type":"stream","text":"a\\rb\\u001b[0m"}]}'
    ),
    "notebook: one output": lambda size: (
        "a.ipynb",
        json.dumps({"cells": [{"cell_type": "code", "outputs": [{"text": "\x1b[0;" * (size // 8)}]}]}).encode(),
    ),
    "notebook: nested": _nested("a.ipynb", "[", "]", "1"),
    "mail: headers": _numbered("a.eml", "X-{0}: a\n", before="Subject: a\n", after="\ntext"),
    "mail: receivers": _repeated("a.eml", "a <b@c.example>, ", before="To: ", after="\n\ntext"),
    "mail: comments in a header": _repeated("a.eml", "(", before="To: ", after="\n\ntext"),
    "mail: encoded words": _repeated("a.eml", "=?utf-8?q?a?= ", before="Subject: ", after="\n\ntext"),
    "mail: long continuation": _repeated("a.eml", " a\n", before="Subject: a\n", after="\ntext"),
    "mail: parts": _repeated("a.eml", "--m\n\ntext\n", before=_MULTIPART, after="--m--\n"),
    "mail: attachments": _repeated("a.eml", _ATTACHED, before=_MULTIPART, after="--m--\n"),
    "mail: nested parts": _nested("a.eml", "Content-Type: multipart/mixed; boundary=m\n\n--m\n", "\n--m--\n"),
    "mail: nested messages": _nested("a.eml", "Subject: a\nContent-Type: message/rfc822\n\n", ""),
    "mail: parameters": _numbered("a.eml", "; a{0}=b", before="Content-Type: text/plain", after="\n\ntext"),
    "mail: file names": _repeated(
        "a.eml", "%C3%A4", before="Content-Disposition: attachment; filename*=utf-8''", after="\n\ntext"
    ),
    "mail: quotes": _repeated("a.eml", "> a quoted line\n", before="Subject: a\n\n"),
    "mail: forwarded": _repeated("a.eml", "-----Original Message-----\ntext\n", before="Subject: a\n\n"),
    "mail: quoted-printable": _repeated(
        "a.eml", "=C3=A4=\n", before="Subject: a\nContent-Transfer-Encoding: quoted-printable\n\n"
    ),
    "archive: files": _archive(".txt", b"words"),
    "archive: files that aren't read": _archive(".png", b"\x89PNG\r\n\x1a\n"),
    "archive: archives": _archive(".zip", package({"a.txt": "words"})),
    "archive: files of a TAR": _tar(b"0", b"words"),
    "archive: links of a TAR": _tar(b"2"),
    "archive: long names of a TAR": _tar(b"L", b"n" * 300),
    "archive: headers of a TAR": _tar(b"x", b"30 mtime=1700000000.123456789\n" * 20),
    "archive: digits in a header of a TAR": _long_header,
    "archive: one name": lambda size: ("a.tar", tar_entry("a.txt", b"words") * min(9000, size // 1024)),
    "archive: streams in a file": lambda size: ("a.txt.xz", lzma.compress(b"words ") * (size // 70)),
    "archive: zeros behind a stream": lambda size: ("a.txt.xz", lzma.compress(b"words") + bytes(size // 4 * 4)),
    "subtitles: cues": _repeated("a.srt", "00:00:01,000 --> 00:00:02,000\nsome words\n\n"),
    "subtitles: one cue": _repeated("a.vtt", "words <b", before="WEBVTT\n\n00:01.000 --> 00:02.000\n"),
    "subtitles: arrows": _repeated("a.vtt", "--> ", before="WEBVTT\n\n00:01.000 --> 00:02.000\n"),
    "subtitles: blanks before an arrow": _repeated("a.srt", " ", after="-->\n00:01 --> 00:02\na"),
    "markup: titles": _numbered("a.rst", "Title {0}\n=========\n\n"),
    "markup: lines of signs": _repeated("a.rst", "====\n"),
    "markup: directives": _repeated("a.rst", ".. code::\n\n"),
    "markup: indented": _repeated("a.rst", "  a::\n\n"),
    "markup: fences": _repeated("a.adoc", "----\n"),
    "markup: open fences": _repeated("a.adoc", "----\n....\n"),
    "markup: headings": _repeated("a.adoc", "== a\n"),
    "markup: open blocks": _repeated("a.org", "#+begin_src\n"),
    "configuration: sections": _numbered("a.toml", "[a.{}]\nb = 1\n"),
    "configuration: open quotes": _repeated("a.toml", '"\\"'),
    "configuration: open brackets": _repeated("a.toml", "a = [\n"),
    "configuration: open texts": _repeated("a.toml", 'a = """\n'),
    "configuration: INI": _repeated("a.ini", "[a\n[b]\n"),
    "markup: rows": _repeated("a.org", "| a | b |\n"),
    "markup: tags": _repeated("a.org", "* a :b :\n"),
    "CSV: rows": _numbered("a.csv", "{},some words,2\n", before="a,b,c\n"),
    "CSV: columns": _wide_sheet,
    "CSV: quotes": _repeated("a.csv", '"a""b",', before="a,b\n"),
    "CSV: an open quote": _repeated("a.csv", "a,b\n", before='a,b\n"'),
    "CSV: one long number": _repeated("a.csv", "1 1.", after="x,y\n1,2\n"),
    "CSV: empty rows": _repeated("a.csv", ",,,\n", after="a,b\n"),
    "code: functions": _numbered("a.py", "def f{}():\n    return 1\n\n\n"),
    "code: methods": _numbered("a.py", "    def f{}(self):\n        return 1\n\n", before="class A:\n"),
    "code: nested classes": _nested("a.java", "class A { ", " }", "int a;", most=400),
    "code: nested brackets": _nested("a.c", "(", ")", "1"),
    "code: open braces": _repeated("a.js", "function f() {\n"),
    "code: comments": _repeated("a.py", "# a comment\n", after="def f(): 1\n"),
    "code: comments without grammar": _repeated("a.lua", "-- a comment\n", after="function f()\n"),
    "code: functions without grammar": _numbered("a.lua", "function f{}()\n  return 1\nend\n"),
    "code: words without grammar": _repeated("a.lua", "a b c d e f g h\n"),
    "code: statements": _repeated("a.js", "a = 1;\n"),
    "code: one long line": _repeated("a.js", "a=1;"),
    "code: namespaces": _nested("a.cpp", "namespace a {\n", "}\n", "int f() { return 1; }\n", most=100),
    "PDF: pages": _many_pages,
    "PDF: bookmarks of one page": _marked_page,
    "PDF: bookmarks of many pages": _many_outlined_pages,
    "PDF: one long paragraph": _long_paragraph,
    "PDF: nested objects": _nested_objects,
}
"""Hostile files by format and structure."""
