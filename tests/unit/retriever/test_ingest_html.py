"""HTML: what a reader sees, block by block."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_retriever.ingest.document import BlockKind
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.html import parse_html_page
from ingest_files import LIMITS, check_document, parse_bytes, texts

PAGE = """<!doctype html>
<html><head><title>  The
 Page </title><style>p { color: red }</style><script>var hidden = "no"</script></head>
<body>
<nav><ul><li><a href="/">Home</a></li></ul></nav>
<h1>Main &amp; first</h1>
<p>One <b>bold</b>word,
   and<br>a break.</p>
<div hidden>secret</div><p style="DISPLAY : none">secret</p><span aria-hidden="true">secret</span>
<h2>Lists</h2>
<ul><li>first <ul><li>inner</li></ul></li><li><p>second</p></li></ul>
<pre>
  def f():
      pass
</pre>
loose text
<footer><ul><li><a href=a>Imprint</a></li><li><a href=b>Privacy</a></li></ul></footer>
</body></html>"""


def test_a_page(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "page.html", PAGE)
    assert document.title == "The Page"
    assert [(b.kind, t) for b, t in zip(document.blocks, texts(document), strict=True)] == [
        (BlockKind.HEADING, "Main & first"),
        (BlockKind.PARAGRAPH, "One boldword, and\na break."),
        (BlockKind.HEADING, "Lists"),
        (BlockKind.PARAGRAPH, "- first"),
        (BlockKind.PARAGRAPH, "- inner"),
        (BlockKind.PARAGRAPH, "- second"),
        (BlockKind.CODE, "  def f():\n      pass"),
        (BlockKind.PARAGRAPH, "loose text"),
    ]
    assert not document.has_lines


def test_rows_of_a_table_are_pairs_under_its_header(tmp_path: Path) -> None:
    page = """<table><caption>Prices</caption>
    <tr><th rowspan=2>Name</th><th colspan=2>Price</th></tr><tr><th>net</th><th>gross</th></tr>
    <tr><td>Tea</td><td>1</td><td>2</td></tr>
    <tr><td rowspan="2">Cake</td><td>3</td><td></td></tr>
    <tr><td>4</td><td>5</td></tr>
    <tr><td colspan=3>All prices in euros</td></tr></table>"""
    document = parse_bytes(tmp_path, "t.html", page)
    assert texts(document) == [
        "Prices",
        "Name: Tea\nPrice / net: 1\nPrice / gross: 2",
        "Name: Cake\nPrice / net: 3",
        "Name: Cake\nPrice / net: 4\nPrice / gross: 5",
        "All prices in euros",
    ]
    assert len(texts(document, BlockKind.ROW)) == 3


def test_a_table_without_header_cells(tmp_path: Path) -> None:
    page = "<table><tr><td colspan=2>Duck</td></tr><tr><th>Class</th><td>Aves</td></tr>"
    page += "<tr><td>Order:</td><td>Anseriformes</td></tr><tr><td>a</td><td>b</td></tr></table>"
    document = parse_bytes(tmp_path, "t.html", page)
    assert texts(document) == ["Duck", "Class: Aves", "Order: Anseriformes", "a | b"]


def test_layout_tables_are_read_as_text(tmp_path: Path) -> None:
    page = "<table role=presentation><tr><td><h2>Left</h2></td><td>right</td></tr></table>"
    document = parse_bytes(tmp_path, "t.html", page)
    assert [b.kind for b in document.blocks] == [BlockKind.HEADING, BlockKind.PARAGRAPH]


def test_only_the_main_part_is_read_if_it_is_most_of_the_page(tmp_path: Path) -> None:
    main = "<main><h1>Title</h1><p>" + "Words that matter. " * 20 + "</p></main>"
    page = f"<body><div>Sidebar</div>{main}<div>Advert</div></body>"
    text = parse_bytes(tmp_path, "p.html", page).text
    assert "Sidebar" not in text
    assert "Advert" not in text
    assert (
        "Sidebar" in parse_bytes(tmp_path, "p.html", "<body><div>Sidebar long enough</div><main>x</main></body>").text
    )


def test_encodings_of_pages(tmp_path: Path) -> None:
    page = "<html><head><meta charset='iso-8859-1'></head><body><p>Größe</p></body></html>"
    assert parse_bytes(tmp_path, "p.html", page.encode("latin-1")).text == "Größe"
    assert parse_bytes(tmp_path, "p.html", page.encode("utf-8")).text == "Größe"
    xml = "<?xml version='1.0' encoding='utf-16'?><html><body><p>Größe</p></body></html>"
    assert parse_bytes(tmp_path, "p.html", xml.encode("utf-16")).text == "Größe"


@pytest.mark.parametrize("page", ["<html><body></body></html>", "<!doctype html><html><script>x()</script></html>"])
def test_a_page_without_text_is_reported(tmp_path: Path, page: str) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "p.html", page)
    assert caught.value.code is IngestCode.NO_TEXT


@pytest.mark.timeout(60)
def test_deep_nesting_and_huge_spans_are_handled(tmp_path: Path) -> None:
    deep = "<div>" * 1500 + "deep down" + "</div>" * 1500 + "after"
    assert parse_bytes(tmp_path, "p.html", deep).text == "deep down\n\nafter"
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "p.html", "before" + "<div>" * 5000 + "lost")
    assert caught.value.code is IngestCode.CORRUPT
    wide = (
        f"<table><tr><th>a</th><th>b</th></tr><tr><td colspan={'9' * 5000}>x</td><td rowspan=65000>y</td></tr></table>"
    )
    assert "x" in parse_bytes(tmp_path, "p.html", wide).text


_PIECES = st.sampled_from(
    ["<p>", "</p>", "<table>", "<tr>", "<td>", "<th>", "</table>", "text", " more ", "<h1>", "</h1>", "<ul><li>",
     "<pre>", "</pre>", "<!-- c -->", "<![CDATA[", "&amp;", "&#0;", "&#xD800;", "<", "<td colspan=3>", "<br>", "\x0c"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_broken_pages_are_read_without_a_crash(page: str) -> None:
    document = parse_html_page(f"<html><p>start</p>{page}", LIMITS)
    check_document(document)
    assert document.text.startswith("start")
