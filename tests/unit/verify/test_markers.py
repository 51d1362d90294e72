"""Markers in a stream: cuts don't matter, no part of a marker is shown, numbers are checked, code is left alone."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from citewire_verify.marker_forms import read_numbers
from citewire_verify.markers import MarkerFilter, MarkerStyle, find_markers

FRAGMENTS = st.sampled_from(
    [
        "[", "]", "[ref:1]", "[ref:2, 9]", "[SOURCE 1]", "[Source: a.pdf, chunk 3]", "[1]", "[1, 2]", "【1†source】",
        "［２］", "[^1]", "[ref:", "[Sour", "[x]", "[a link](http://x.y)", "(", ")", " ", "  ", "\n", ", ", ". ",
        "`", "```", "\n```\n", "~~~", "word", "Äpfel", "語", "[ref:0]", "[source code]", "†", "[[1]]",
        "[Source: a[1].txt]", "1", "ref", "［ｒｅｆ：１］", "[ref:1-3]", "[SOURCE 2, p. 7]", "[ref1]", "ｒ", "：", "、",
        "**", "_", "*", "(Source: a.md)", "(see ", "([2])", "$", "$$",
        "\\(", "\\)", "\\[", "\\", "(http://x.y)", ":", "-",
        "    ", "> ", "- ", " and ", "来源", "[Quelle 1]", "（出典：x）", "\t", "[1]:", "[[", "]]", "=", "![", "9", "~",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=24).map("".join)
STYLES = st.sampled_from(list(MarkerStyle))


OPTIONS = st.sampled_from([{}, {"bare": True}, {"bare": True, "remove_invalid": True}])


def run(
    style: MarkerStyle,
    pieces: list[str],
    packed: int = 3,
    **options: Any,  # noqa: ANN401 # values of any kind are meant
) -> tuple[str, MarkerFilter]:
    marker_filter = MarkerFilter(style, packed, **options)
    text = "".join(marker_filter.feed(piece) for piece in pieces) + marker_filter.finish()
    return text, marker_filter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is 5 [ref:1].", "It is 5."),
        ("It is 5[ref:1][ref:2].", "It is 5."),
        ("A [1], [2] and [3]. B", "A. B"),
        ("A [1] und [2], sagt B", "A, sagt B"),
        ("claim [1] next", "claim next"),
        ("claim [SOURCE 1], next", "claim, next"),
        ("claim [source 2: a.pdf § x] next", "claim next"),
        ("claim [Source: a[1].pdf, p. 3] next", "claim next"),
        ("claim [SOURCE: report.pdf]", "claim"),
        ("claim [Source] x", "claim x"),
        ("[1] Start", "Start"),
        ("x【1†source】.", "x."),
        ("x【31†L20-L24】【2】.", "x."),
        ("x［１］.", "x."),
        ("x [^1].", "x."),
        ("x[^1^].", "x."),
        ("x [1, 2, and 3] y", "x y"),
        ("x [1-3] y", "x y"),
        ("x [[1]] y", "x y"),
        ("x [doc1][citation:2] y", "x y"),
        ("x [1] (see y)", "x (see y)"),
        ("x [1](see y) z", "x (see y) z"),
        ("x [9].", "x."),
        ("- [1]\n- foo [2] bar\nend", "-\n- foo bar\nend"),
        ("- first [1]\n- second [2]\n", "- first\n- second\n"),
        ("hard break  \nline ", "hard break  \nline "),
        ("a lone ` tick [1]\nthen [2].", "a lone ` tick\nthen."),
        ("首都[1]。次[２]は", "首都。次は"),
        ("It ends.[1] Next", "It ends. Next"),
        ("from $5 [1] to $6 [2] or US$7 [3]", "from $5 to $6 or US$7"),
        # Emphasis and parentheses are removed with their content.
        ("It is **[1]** so", "It is so"),
        ("It is _[1]_.", "It is."),
        ("It is **[1], [2]** so", "It is so"),
        ("It is *(Source: a.md)* so", "It is so"),
        ("**bold [1]** x", "**bold** x"),
        ("**[1] bold** x", "**bold** x"),
        ("**bold**[1] x", "**bold** x"),
        ("It is so ([1]).", "It is so."),
        ("It is so (see [1], [2]).", "It is so."),
        ("It is so (vgl. [1]).", "It is so."),
        ("It is so (source 2).", "It is so."),
    ],
)
def test_remove(text: str, expected: str) -> None:
    assert run(MarkerStyle.REMOVE, [text])[0] == expected
    # As sent by a model: a token begins with its space.
    assert run(MarkerStyle.REMOVE, re.findall(r"\s*\S{1,3}|\s+$", text))[0] == expected
    assert run(MarkerStyle.REMOVE, list(text))[0] == expected


@pytest.mark.parametrize(
    "marker",
    [
        "(Source: a.md)", "[Source: a.md]", "[Sources: a.md, b.md]", "(Quelle: a.md)", "[Quelle 1]", "[Quellen 1, 2]",
        "(Fuente: informe.pdf)", "[Fuente 1]", "[Référence 1]", "[Extrait : a.md]", "(Fonte: x)", "[Fonte 1]",
        "[Bron 1]", "(Bron: a.md)", "[Kilde 1]", "[Källa 1]", "(Källa: a.md)", "[Lähde 1]", "[Forrás: a.md]",
        "[Sumber 1]",
        "[Sursa 1]", "[Zdroj 1]", "[Źródło: a.md]", "[Kaynak 1]", "[Allikas 1]", "[Šaltinis 1]", "[Foinse 1]",
        "[Iturria 1]", "[Извор 1]", "[Источник: a.md]", "(Источник: a.md)", "[Источники 1, 2]", "[Πηγή 1]",
        "[Աղբյուր 1]", "[المصدر ١]", "(المصدر: a.md)", "[مصدر: a.md]", "[منبع ۱]", "[स्रोत १]", "[स्रोत: a.md]",
        "[ஆதாரம் 1]", "[קוואל 1]", "【来源1】", "（来源：a.md）", "[来源 1]", "[來源: a.md]", "［出典 ２］",
        "（出典：a.md）", "[参考資料1]", "[文档 1]", "[Dokument 2]", "[documento: a.pdf]", "[Passage 3]",
        "【出典１】", "［１］", "［１、２］",
    ],
)  # fmt: skip
def test_a_source_named_in_any_of_the_languages_is_removed(marker: str) -> None:
    for text in (f"Es ist so {marker}.", f"Es ist so {marker} und so.", f"事実{marker}。"):
        expected = text.replace(f" {marker}", "").replace(marker, "")
        assert run(MarkerStyle.REMOVE, [text])[0] == expected
        assert run(MarkerStyle.REMOVE, list(text))[0] == expected


UNTOUCHED = [
    "`items[1]` and grid[2][3] and items[1]",
    "H[2]O and f(x)[1] and a_[2] and rows[1, 2]",
    '[1](http://x.org) and [see 1](a.md) and ![alt [1]](b.png "t")',
    "[a [1] b](http://x.org) and [text][1] and [1][note] and [1][]",
    '[1]: http://x.org "title"\n[^1]: the note\n  [^2]: another',
    "<http://x.org/a[1]> http://x.org/?q=[1]&r[2]=3",
    "code `[1] and [Source: a.md]` here",
    "``a ` [ref:1]`` and `x[1]`",
    "```py\nx = [1]\n[Source: x]\n```\nafter",
    "~~~\n[1]\n~~~\n> ```\n> [2]\n> ```\n- ```\n  [3]\n  ```",
    "text:\n\n    [1] indented\n    [Source: a]\n\n\t[2] tab",
    "$x_[1] [2]$ and $$y [1]$$x",
    "$$\na [1]\n+ [2]\n$$",
    "\\(a [1] b\\) and \\[ c [2]\n+ [3] \\]",
    "x = [1, 2] and t \u2208 [1, 2] and the interval [1, 2]",
    "[[1], [2]] and in [0, 1] and [2023] and [404]",
    "[x] [ ] [source code] [citation needed] [document] [sic]",
    "(1) (a) (see above) (Ref: AB-12) (sources vary) (source of 2 rivers)",
    '{"a":[1]} f([1]) a->[1] "abc"[1]',
    "[2]H and [Figure 1] and [Reference: Smith]",
    "\\[1\\] and \\`[x]",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_code_links_formulas_and_indexing_stay(text: str) -> None:
    for style in (MarkerStyle.REMOVE, MarkerStyle.REF, MarkerStyle.SOURCE):
        for pieces in ([text], list(text)):
            shown, marker_filter = run(style, pieces, bare=True)
            assert shown == text
            assert (marker_filter.cited, marker_filter.removed, marker_filter.invalid) == ((), 0, 0)


def test_space_before_a_marker_that_is_removed_is_never_shown() -> None:
    assert run(MarkerStyle.REMOVE, ["a ", "[1]", " b ", "[2]", "."])[0] == "a b."
    assert run(MarkerStyle.REMOVE, ["a ", "[1]", "."])[0] == "a."


def test_without_markers_deltas_pass_at_once_except_for_a_final_space() -> None:
    marker_filter = MarkerFilter(MarkerStyle.REMOVE, 3)
    pieces = ["word", " word ", "more ", "x", "\t", "end"]
    assert [marker_filter.feed(piece) for piece in pieces] == ["word", " word", " more", " x", "", "\tend"]
    for style in (MarkerStyle.REF, MarkerStyle.SOURCE, MarkerStyle.NUMBER):
        marker_filter = MarkerFilter(style, 3)
        assert [marker_filter.feed(piece) for piece in pieces] == pieces


@pytest.mark.parametrize(
    ("text", "shown", "cited", "invalid"),
    [
        ("a [1].", "a [ref:1].", (1,), 0),
        ("a [1, 2] b", "a [ref:1][ref:2] b", (1, 2), 0),
        ("a [2][1] b", "a [ref:2][ref:1] b", (2, 1), 0),
        ("a [1], [2] and [3]", "a [ref:1], [ref:2] and [ref:3]", (1, 2, 3), 0),
        ("a [1-3] b [1–2]", "a [ref:1][ref:2][ref:3] b [ref:1][ref:2]", (1, 2, 3), 0),
        ("a [ref:1, 2] b [ref: 1]", "a [ref:1][ref:2] b [ref:1]", (1, 2), 0),
        ("a [^1] b[^2].", "a [ref:1] b[ref:2].", (1, 2), 0),
        ("a【1†source】 b 【2】", "a[ref:1] b [ref:2]", (1, 2), 0),
        ("a [Source 1] [Document 2] [来源 3]", "a [ref:1] [ref:2] [ref:3]", (1, 2, 3), 0),
        ("a **[1]** (see [2]) [[3]]", "a **[ref:1]** (see [ref:2]) [[ref:3]]", (1, 2, 3), 0),
        ("a [9] b [0] c [1, 9] d (1)", "a [9] b [0] c [1, 9] d (1)", (1,), 3),
        ("[1] begins\n- [2] an item", "[ref:1] begins\n- [ref:2] an item", (1, 2), 0),
        ("首都[1]。東京[２]は", "首都[ref:1]。東京[ref:2]は", (1, 2), 0),
        ("a [Source: a.md] (Source: b.md) (ref:1)", "a [Source: a.md] (Source: b.md) (ref:1)", (), 0),
    ],
)
def test_bare_numbers_cite_if_passages_are_labelled_with_them(
    text: str, shown: str, cited: tuple[int, ...], invalid: int
) -> None:
    for pieces in ([text], list(text)):
        result, marker_filter = run(MarkerStyle.REF, pieces, bare=True)
        assert result == shown
        assert (marker_filter.cited, marker_filter.invalid, marker_filter.removed) == (cited, invalid, 0)


@pytest.mark.parametrize(
    ("text", "shown", "removed"),
    [
        ("a [ref:9]. b [ref:1]", "a. b [ref:1]", 1),
        ("a [9], [1] b", "a, [ref:1] b", 1),
        ("a [1][9] b", "a [ref:1] b", 1),
        ("a [1, 9] b", "a [ref:1] b", 0),
        ("a **[9]** b ([7])", "a b", 2),
        ("a [Source: a.md] (Source: b) items[9] [2023]", "a [Source: a.md] (Source: b) items[9] [2023]", 0),
    ],
)
def test_invalid_markers_may_be_removed(text: str, shown: str, removed: int) -> None:
    for pieces in ([text], list(text)):
        result, marker_filter = run(MarkerStyle.REF, pieces, bare=True, remove_invalid=True)
        assert (result, marker_filter.removed) == (shown, removed)


@pytest.mark.parametrize(
    ("text", "expected", "cited"),
    [
        ("a [ref:1] b [ref:3][ref:1].", "a [ref:1] b [ref:3][ref:1].", (1, 3)),
        ("a [REF: 2] b", "a [ref:2] b", (2,)),
        ("a [ref1] b [ref 2]", "a [ref:1] b [ref:2]", (1, 2)),
        ("a [SOURCE 1] b [source 2]", "a [ref:1] b [ref:2]", (1, 2)),
        ("a [SOURCE 1, SOURCE 3] b", "a [ref:1][ref:3] b", (1, 3)),
        ("a [ref:3, 1, 3] b", "a [ref:3][ref:1] b", (3, 1)),
        ("a [ref:1-3].", "a [ref:1][ref:2][ref:3].", (1, 2, 3)),
        ("a 【ref:1】 b ［ｒｅｆ：２］ c 〔SOURCE　３〕", "a [ref:1] b [ref:2] c [ref:3]", (1, 2, 3)),
        ("a [ref:1、2] b [ref:１，３]", "a [ref:1][ref:2] b [ref:1][ref:3]", (1, 2, 3)),
        ("a 【ref:1†source】", "a [ref:1]", (1,)),
        ("a [[ref:1]] b", "a [[ref:1]] b", (1,)),
    ],
)
def test_citations_are_spelled_in_their_style(text: str, expected: str, cited: tuple[int, ...]) -> None:
    for style, form in ((MarkerStyle.REF, "[ref:"), (MarkerStyle.SOURCE, "[SOURCE ")):
        for pieces in ([text], list(text)):
            shown, marker_filter = run(style, pieces)
            assert shown == expected.replace("[ref:", form)
            assert (marker_filter.cited, marker_filter.invalid, marker_filter.removed) == (cited, 0, 0)


@pytest.mark.parametrize("style", [MarkerStyle.REF, MarkerStyle.SOURCE])
@pytest.mark.parametrize(
    ("text", "cited", "invalid"),
    [
        ("a [SOURCE 2, p. 7] b", (2,), 0),
        ("a [ref:0] b [ref:4] c [ref:99999999999]", (), 3),
        ("a 【ref：９】 b [REF 4]", (), 2),
        ("a [ref:1, 9] b", (1,), 1),
        ("a [1] b 【2】 c [ref] [ref:] [reference: x] (1)", (), 0),
        ("a [rеf:1] [ref:①] [ref:-1] [ref:1.5] [xref:1] [refer:1] ref:1 (ref:1) {ref:1}", (), 0),
        ("`[ref:1]` and\n```\n[ref:2]\n```\n", (), 0),
        ("``a ` [ref:1]`` and ~~~ [ref", (), 0),
        ("[ref:1", (), 0),
        ("[ref:\n1]", (), 0),
    ],
)
def test_text_that_is_no_citation_stays_unchanged(
    style: MarkerStyle, text: str, cited: tuple[int, ...], invalid: int
) -> None:
    for pieces in ([text], list(text)):
        shown, marker_filter = run(style, pieces)
        assert shown == text
        assert (marker_filter.cited, marker_filter.invalid, marker_filter.removed) == (cited, invalid, 0)


def test_removed_markers_are_counted_and_cite_nothing() -> None:
    _, marker_filter = run(MarkerStyle.REMOVE, ["a [1] b [ref:9] c [Source: x]"])
    assert (marker_filter.cited, marker_filter.invalid, marker_filter.removed) == ((), 1, 3)


def test_style_none_leaves_everything() -> None:
    text = "a [ref:1] [1] [Source: x"
    assert run(MarkerStyle.NONE, list(text))[0] == text


@pytest.mark.parametrize("end", range(1, len("[SOURCE 1")))
def test_no_prefix_of_a_marker_is_shown(end: int) -> None:
    for marker, style in (("[ref:12]", MarkerStyle.REF), ("[SOURCE 1]", MarkerStyle.SOURCE)):
        marker_filter = MarkerFilter(style, 20)
        assert marker_filter.feed(f"claim{marker[: min(end, len(marker) - 1)]}") == "claim"


def test_removal_shows_no_prefix_either() -> None:
    marker_filter = MarkerFilter(MarkerStyle.REMOVE, 3)
    shown = [marker_filter.feed(char) for char in "claim [Source: a.pdf] and"]
    assert "".join(shown) + marker_filter.finish() == "claim and"
    assert shown[5:22] == [""] * 17


def test_pending_text_is_shown_at_the_end() -> None:
    for style in (MarkerStyle.REMOVE, MarkerStyle.REF, MarkerStyle.SOURCE):
        for pending in ("[", "[ref:1", "[SOURCE 2, ", "[Source: report"):
            assert run(style, list(f"claim {pending}"))[0] == f"claim {pending}"


def test_text_without_markers_is_passed_on_at_once() -> None:
    text = "The price is 12.50 EUR (see page 3); `code` isn't special.\n\n| a | b |\n"
    for style in MarkerStyle:
        marker_filter = MarkerFilter(style, 3)
        for piece in ("The", " price", " is", " 12", ".", "50", " EUR", "\n", "`x`;", "(x", "|"):
            assert marker_filter.feed(piece) == piece
        assert run(style, [text])[0] == text


@given(STYLES, TEXTS, OPTIONS)
def test_split_at_every_offset(style: MarkerStyle, text: str, options: dict[str, bool]) -> None:
    whole, reference = run(style, [text], **options)
    for offset in range(len(text) + 1):
        shown, marker_filter = run(style, [text[:offset], text[offset:]], **options)
        assert shown == whole
        assert marker_filter.cited == reference.cited
        assert (marker_filter.invalid, marker_filter.removed) == (reference.invalid, reference.removed)


@given(STYLES, TEXTS, OPTIONS, st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_any_cuts_give_the_same(style: MarkerStyle, text: str, options: dict[str, bool], sizes: list[int]) -> None:
    pieces: list[str] = []
    rest, turn = text, 0
    while rest:
        size = sizes[turn % len(sizes)]
        pieces.append(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert run(style, pieces, **options)[0] == run(style, [text], **options)[0]


@given(STYLES, st.text(alphabet="[]()1a ,*_`$\\\n~:=-^", max_size=60), OPTIONS)
def test_any_characters_give_the_same(style: MarkerStyle, text: str, options: dict[str, bool]) -> None:
    whole = run(style, [text], **options)[0]
    assert run(style, list(text), **options)[0] == whole
    for offset in range(len(text) + 1):
        assert run(style, [text[:offset], text[offset:]], **options)[0] == whole


@given(TEXTS)
def test_nothing_is_lost_if_markers_stay(text: str) -> None:
    for style in (MarkerStyle.NONE, MarkerStyle.NUMBER):
        assert run(style, list(text))[0] == text


@given(TEXTS)
def test_numbers_outside_the_context_change_no_text(text: str) -> None:
    for style in (MarkerStyle.REF, MarkerStyle.SOURCE):
        shown, marker_filter = run(style, list(text), packed=0, bare=True)
        assert shown == text
        assert marker_filter.cited == ()


@given(TEXTS)
@example("【1†source】([2])")
@example("[【1†source】](http://x.y)")
def test_spelling_twice_changes_nothing(text: str) -> None:
    for style in (MarkerStyle.REF, MarkerStyle.SOURCE):
        once, first = run(style, list(text))
        twice, second = run(style, [once])
        assert twice == once
        assert (second.cited, second.invalid) == (first.cited, first.invalid)


@given(STYLES, TEXTS)
def test_markers_are_found_at_their_positions(style: MarkerStyle, text: str) -> None:
    markers, invalid = find_markers(text, style, 3)
    reader = MarkerFilter(style, 3, verbatim=True)
    assert "".join(map(reader.feed, text)) + reader.finish() == text
    assert reader.invalid == invalid
    assert [marker.start for marker in reader.take_markers()] == [marker.start for marker in markers]
    for marker in markers:
        assert text[marker.start] in "[【［〔(（"
        assert set(marker.numbers) <= {1, 2, 3}
    if style in {MarkerStyle.REF, MarkerStyle.SOURCE}:
        assert tuple(dict.fromkeys(n for marker in markers for n in marker.numbers)) == run(style, [text])[1].cited


@given(st.sampled_from([MarkerStyle.REF, MarkerStyle.SOURCE]), TEXTS, st.integers(1, 7))
@example(MarkerStyle.REF, "    [ref:1]", 7)
def test_no_piece_ends_inside_a_marker(style: MarkerStyle, text: str, size: int) -> None:
    marker_filter = MarkerFilter(style, 3)
    pieces = [marker_filter.feed(text[start : start + size]) for start in range(0, len(text), size)]
    shown = "".join(pieces) + marker_filter.finish()
    ends = {sum(map(len, pieces[:count])) for count in range(len(pieces) + 1)}
    form = r"\[ref:\d\]" if style is MarkerStyle.REF else r"\[SOURCE \d\]"
    for match in re.finditer(form, shown):
        # In code nothing is a marker, and text is passed on. Lines that are indented far enough are code too.
        inside = ends & set(range(match.start() + 1, match.end()))
        line = shown[shown.rfind("\n", 0, match.start()) + 1 : match.start()]
        code = "`" in shown[: match.start()] or "~" in shown[: match.start()] or "    " in line or "\t" in line
        assert not inside or code


@given(
    st.lists(st.sampled_from(["word ", "Satz. ", "[1] ", "[ref:2]", "[Source: a b.pdf]", "【3】", "\n"]), max_size=20)
)
def test_removal_leaves_no_marker(parts: list[str]) -> None:
    shown, _ = run(MarkerStyle.REMOVE, parts)
    assert run(MarkerStyle.REMOVE, [shown])[1].removed == 0
    assert "[" not in shown
    assert "【" not in shown


@pytest.mark.parametrize(
    ("inner", "worded", "numbers"),
    [
        ("ref:1", True, [1]),
        ("SOURCE 1, 2 and 3", True, [1, 2, 3]),
        ("refs 2-4", True, [2, 3, 4]),
        ("source 1-9000", True, [1, 9000]),
        ("ref:1 but not", True, []),
        ("1", False, [1]),
        ("1;2", False, [1, 2]),
        ("1234", False, []),
        ("1.5", False, []),
        ("1", True, []),
        ("ref:1", False, []),
    ],
)
def test_reading_numbers(inner: str, worded: bool, numbers: list[int]) -> None:
    assert read_numbers(inner, worded=worded)[0] == numbers


@pytest.mark.parametrize("size", [1, 3, 100])
def test_labels_become_the_readers_numbers_and_others_are_removed(size: int) -> None:
    text = "A [ref:7]. B [ref:2][ref:9]. C [ref:1, 9]. D [SOURCE 7, p. 3]. E [ref:1]. F `[ref:1]`."
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    reader = MarkerFilter(MarkerStyle.REF, 2, bare=True, numbers={7: 1, 9: 2})
    shown = "".join(map(reader.feed, pieces)) + reader.finish()
    assert shown == "A [ref:1]. B [ref:2]. C [ref:2]. D [ref:1]. E. F `[ref:1]`."
    assert (reader.cited, reader.invalid) == ((1, 2), 3)
    assert [shown[marker.start : marker.end] for marker in reader.take_markers()] == [
        "[ref:1]", "[ref:2]", "[ref:2]", "[ref:1]",
    ]  # fmt: skip
