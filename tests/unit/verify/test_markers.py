"""Markers on the stream: the same whatever the pieces, nothing incomplete shown, numbers checked, code left alone."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_verify.markers import MarkerFilter, MarkerStyle, find_markers, read_numbers

FRAGMENTS = st.sampled_from(
    [
        "[", "]", "[ref:1]", "[ref:2, 9]", "[SOURCE 1]", "[Source: a.pdf, chunk 3]", "[1]", "[1, 2]", "【1†source】",
        "［２］", "[^1]", "[ref:", "[Sour", "[x]", "[a link](http://x.y)", "(", ")", " ", "  ", "\n", ", ", ". ",
        "`", "```", "\n```\n", "~~~", "word", "Äpfel", "語", "[ref:0]", "[source code]", "†", "[[1]]",
        "[Source: a[1].txt]", "1", "ref", "［ｒｅｆ：１］", "[ref:1-3]", "[SOURCE 2, p. 7]", "[ref1]", "ｒ", "：", "、",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=24).map("".join)
STYLES = st.sampled_from(list(MarkerStyle))


def visible(text: str) -> str:
    """Text without spaces: which of them go with a removed marker depends on what was already shown."""
    return "".join(text.split())


def run(style: MarkerStyle, pieces: list[str], packed: int = 3) -> tuple[str, MarkerFilter]:
    marker_filter = MarkerFilter(style, packed)
    text = "".join(marker_filter.feed(piece) for piece in pieces) + marker_filter.finish()
    return text, marker_filter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is 5 [ref:1].", "It is 5."),
        ("It is 5[ref:1][ref:2].", "It is 5."),
        ("A [1], [2] and [3]. B", "A and. B"),
        ("claim [1] next", "claim next"),
        ("claim [SOURCE 1], next", "claim, next"),
        ("claim [source 2: a.pdf § x] next", "claim next"),
        ("claim [Source: a[1].pdf, p. 3] next", "claim next"),
        ("claim [SOURCE: report.pdf]", "claim"),
        ("claim [Source] x", "claim x"),
        ("[1] Start", "Start"),
        ("x【1†source】.", "x."),
        ("x［１］.", "x."),
        ("x [^1].", "x."),
        ("x [1, 2, and 3] y", "x y"),
        ("x [1-3] y", "x y"),
        ("x [1](https://a.example/b) y", "x y"),
        ("x [1] (see y)", "x (see y)"),
        ("x [1](see y) z", "x (see y) z"),
        ("- [1]\n- foo [2] bar\nend", "-\n- foo bar\nend"),
        ("- first [1]\n- second [2]\n", "- first\n- second\n"),
        ("see [2023] and [x] and [ ] and [source code]", "see [2023] and [x] and [ ] and [source code]"),
        ("[a link](https://a.example)", "[a link](https://a.example)"),
        ("hard break  \nline ", "hard break  \nline "),
        ("the code `items[1]` [1] here", "the code `items[1]` here"),
        ("```py\nx[1] = [2]\n```\nafter [1].", "```py\nx[1] = [2]\n```\nafter."),
        ("a lone ` tick [1]\nthen [2].", "a lone ` tick [1]\nthen."),
        ("```\n[Source: x]\ny[1]\n```", "```\n\ny[1]\n```"),
    ],
)
def test_remove(text: str, expected: str) -> None:
    assert run(MarkerStyle.REMOVE, [text])[0] == expected
    # As a model sends it: a token begins with its space.
    assert run(MarkerStyle.REMOVE, re.findall(r"\s*\S{1,3}|\s+$", text))[0] == expected
    assert visible(run(MarkerStyle.REMOVE, list(text))[0]) == visible(expected)


def test_a_space_that_was_shown_before_the_first_marker_stays_and_is_not_doubled() -> None:
    assert run(MarkerStyle.REMOVE, ["a ", "[1]", " b ", "[2]", "."])[0] == "a b."
    assert run(MarkerStyle.REMOVE, ["a ", "[1]", "."])[0] == "a ."


def test_without_markers_every_delta_passes_as_it_is() -> None:
    marker_filter = MarkerFilter(MarkerStyle.REMOVE, 3)
    for delta in ("word ", "word ", "\t", "  ", "`x` ", "end "):
        assert marker_filter.feed(delta) == delta


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
def test_citations_are_spelled_as_their_style_has_it(text: str, expected: str, cited: tuple[int, ...]) -> None:
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
        ("a [1] b 【2】 c [ref] [ref:] [reference: x]", (), 0),
        ("a [rеf:1] [ref:①] [ref:-1] [ref:1.5] [xref:1] [refer:1] ref:1 (ref:1) {ref:1}", (), 0),
        ("`[ref:1]` and\n```\n[ref:2]\n```\n", (), 0),
        ("``a ` [ref:1]`` and ~~~ [ref", (), 0),
        ("[ref:1", (), 0),
        ("[ref:\n1]", (), 0),
    ],
)
def test_what_is_no_citation_stays_as_it_was_written(
    style: MarkerStyle, text: str, cited: tuple[int, ...], invalid: int
) -> None:
    for pieces in ([text], list(text)):
        shown, marker_filter = run(style, pieces)
        assert shown == text
        assert (marker_filter.cited, marker_filter.invalid, marker_filter.removed) == (cited, invalid, 0)


def test_removed_markers_are_counted_and_cite_nothing() -> None:
    _, marker_filter = run(MarkerStyle.REMOVE, ["a [1] b [ref:9] c [Source: x]"])
    assert (marker_filter.cited, marker_filter.invalid, marker_filter.removed) == ((), 1, 3)


def test_none_leaves_everything() -> None:
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
    assert visible("".join(shown)) == "claimand"
    assert shown[6:22] == [""] * 16


def test_what_is_pending_at_the_end_is_shown() -> None:
    for style in (MarkerStyle.REMOVE, MarkerStyle.REF, MarkerStyle.SOURCE):
        for pending in ("[", "[ref:1", "[SOURCE 2, ", "[Source: report"):
            assert run(style, list(f"claim {pending}"))[0] == f"claim {pending}"


def test_text_without_markers_flows_at_once() -> None:
    text = "The price is 12.50 EUR (see page 3); `code` isn't special.\n\n| a | b |\n"
    for style in MarkerStyle:
        marker_filter = MarkerFilter(style, 3)
        for piece in ("The", " price", " is", " 12", ".", "50", " EUR", "\n", "`x`", "(", "|"):
            assert marker_filter.feed(piece) == piece
        assert run(style, [text])[0] == text


@given(STYLES, TEXTS)
def test_split_at_every_offset(style: MarkerStyle, text: str) -> None:
    whole, reference = run(style, [text])
    for offset in range(len(text) + 1):
        shown, marker_filter = run(style, [text[:offset], text[offset:]])
        assert visible(shown) == visible(whole)
        if style is not MarkerStyle.REMOVE or not text[:offset].endswith(" "):
            assert shown == whole
        assert marker_filter.cited == reference.cited
        assert (marker_filter.invalid, marker_filter.removed) == (reference.invalid, reference.removed)


@given(STYLES, TEXTS, st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_any_pieces_give_the_same(style: MarkerStyle, text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    rest, turn = text, 0
    while rest:
        size = sizes[turn % len(sizes)]
        pieces.append(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert visible(run(style, pieces)[0]) == visible(run(style, [text])[0])


@given(TEXTS)
def test_numbers_outside_the_context_change_no_text(text: str) -> None:
    for style in (MarkerStyle.REF, MarkerStyle.SOURCE):
        shown, marker_filter = run(style, list(text), packed=0)
        assert shown == text
        assert marker_filter.cited == ()


@given(TEXTS)
def test_spelling_is_done_once(text: str) -> None:
    for style in (MarkerStyle.REF, MarkerStyle.SOURCE):
        once, first = run(style, list(text))
        twice, second = run(style, [once])
        assert twice == once
        assert (second.cited, second.invalid) == (first.cited, first.invalid)


@given(STYLES, TEXTS)
def test_markers_are_found_where_they_stand(style: MarkerStyle, text: str) -> None:
    markers, invalid = find_markers(text, style, 3)
    reader = MarkerFilter(style, 3, verbatim=True)
    assert "".join(map(reader.feed, text)) + reader.finish() == text
    assert reader.invalid == invalid
    assert [marker.start for marker in reader.take_markers()] == [marker.start for marker in markers]
    for marker in markers:
        assert text[marker.start] in "[【［〔"
        assert set(marker.numbers) <= {1, 2, 3}
    if style in {MarkerStyle.REF, MarkerStyle.SOURCE}:
        assert tuple(dict.fromkeys(n for marker in markers for n in marker.numbers)) == run(style, [text])[1].cited


@given(st.sampled_from([MarkerStyle.REF, MarkerStyle.SOURCE]), TEXTS, st.integers(1, 7))
def test_no_piece_ends_inside_a_marker(style: MarkerStyle, text: str, size: int) -> None:
    marker_filter = MarkerFilter(style, 3)
    pieces = [marker_filter.feed(text[start : start + size]) for start in range(0, len(text), size)]
    shown = "".join(pieces) + marker_filter.finish()
    ends = {sum(map(len, pieces[:count])) for count in range(len(pieces) + 1)}
    form = r"\[ref:\d\]" if style is MarkerStyle.REF else r"\[SOURCE \d\]"
    for match in re.finditer(form, shown):
        # In code nothing is a marker: such text flows.
        inside = ends & set(range(match.start() + 1, match.end()))
        assert not inside or "`" in shown[: match.start()] or "~" in shown[: match.start()]


@given(
    st.lists(st.sampled_from(["word ", "Satz. ", "[1] ", "[ref:2]", "[Source: a b.pdf]", "【3】", "\n"]), max_size=20)
)
def test_removal_leaves_no_marker(parts: list[str]) -> None:
    shown, _ = run(MarkerStyle.REMOVE, parts)
    assert run(MarkerStyle.REMOVE, [shown])[1].removed == 0
    assert "[" not in shown
    assert "【" not in shown


@pytest.mark.parametrize(
    "unit", ["[", "[source: ", "[ref:1", "[1,", "[^", "[[ref:", "` [1", "[Source: [Source: [Source:\n"]
)
@pytest.mark.parametrize("style", [MarkerStyle.REMOVE, MarkerStyle.REF])
def test_hostile_text_takes_linear_time(unit: str, style: MarkerStyle) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        run(style, [unit * count])
        return time.process_time() - started

    seconds(200)
    # Ten times the text: a quadratic filter would take a hundred times as long.
    short, long = seconds(1_000), seconds(10_000)
    assert long < 40 * max(short, 0.002)


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
