"""Symbol fonts in Word documents, presentations and RTF: the characters that are shown, not the fonts' codes."""

from __future__ import annotations

import pytest

from citewire_retriever.ingest.parsers import parse
from ingest_files import texts
from zip_packages import docx, pptx


@pytest.mark.parametrize(
    ("font", "code", "shown"),
    [
        ("Symbol", "F061", "α"),
        ("Symbol", "F0B3", "≥"),
        ("Symbol", "0044", "Δ"),
        ("Wingdings", "F0FC", "✓"),
        ("Wingdings", "F0A8", "☐"),
        ("Wingdings", "F000", ""),
        ("Wingdings 2", "F052", "☑"),
        ("MS Gothic", "2612", "☒"),
        ("Unknown", "F061", ""),
        ("Symbol", "", ""),
        ("Symbol", "11F061", ""),
    ],
)
def test_a_symbol_of_word_is_the_character_that_it_shows(font: str, code: str, shown: str) -> None:
    body = f'<w:p><w:r><w:t>a</w:t><w:sym w:font="{font}" w:char="{code}"/><w:t>b</w:t></w:r></w:p>'
    assert texts(parse(docx(body), "a.docx")) == [f"a{shown}b"]


@pytest.mark.parametrize(
    ("fonts", "text", "shown"),
    [
        ('w:ascii="Symbol" w:hAnsi="Symbol"', "m\uf06d \uf0b3\u00a0а", "μμ ≥\u00a0а"),
        ('w:hAnsi="Wingdings"', "\uf0e0\uf0fc\uf001", "→✓"),
        ('w:ascii="Arial"', "m", "m"),
    ],
)
def test_a_run_in_a_symbol_font_is_what_it_shows(fonts: str, text: str, shown: str) -> None:
    body = f"<w:p><w:r><w:rPr><w:rFonts {fonts}/></w:rPr><w:t>{text}</w:t></w:r><w:r><w:t>m</w:t></w:r></w:p>"
    assert texts(parse(docx(body), "a.docx")) == [f"{shown}m"]


@pytest.mark.parametrize(
    ("font", "text", "shown"),
    [
        ('<latin typeface="Symbol"/>', "Dx", "Δξ"),
        ('<sym typeface="Wingdings"/>', "à", "→"),
        ('<sym typeface="Wingdings"/>', "\uf0e0 Lösung für morgen", "→ Lösung für morgen"),
        ('<sym typeface="Wingdings"/>', "x", "x"),
        ('<latin typeface="Arial"/>', "à", "à"),
    ],
)
def test_a_symbol_on_a_slide_is_what_it_shows(font: str, text: str, shown: str) -> None:
    slide = f"<sp><txBody><p><r><t>a </t></r><r><rPr>{font}</rPr><t>{text}</t></r></p></txBody></sp>"
    assert texts(parse(pptx(slide), "a.pptx"))[1:] == [f"a {shown}"]


def test_symbols_in_rtf_are_what_they_show() -> None:
    fonts = (
        rb"{\fonttbl{\f0\fswiss Arial;}{\f1\froman\fcharset2{\*\panose 05050102010706020507}Symbol;}"
        rb"{\f2\fnil\fcharset2 Wing" + b"\r\n" + rb"dings{\*\falt Other};}}"
    )
    text = rb"\pard {\f1 a\'b3}b {\f2\'fc}\u-3844 ? {\f2\u-3844 ?}{\f1\plain a}\par{\listtext\f1\'b7\tab}point\par"
    document = parse(rb"{\rtf1\ansi" + fonts + text + b"}", "a.rtf")
    assert texts(document) == ["α≥b ✓\uf0fc ✓a", "•\tpoint"]
