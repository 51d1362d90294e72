"""JSON, JSON Lines, YAML and XML: small records share a chunk, and every line has its own path."""

import asyncio
import json
import random
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest
import yaml

from citewire_retriever.ingest import chunker
from citewire_retriever.ingest.chunks import Chunk, ChunkRules
from citewire_retriever.ingest.document import Block, ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.places import covering_path
from ingest_files import parse_bytes, text_of

Json: TypeAlias = Any
RULES = ChunkRules(max_tokens=254)
_STEP = re.compile(r"\.?([^.\[]+)|\[(\d+)\]|\[(\".*?(?<!\\)\")\]")


async def count(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


def chunks_of(document: ParsedDocument) -> list[Chunk]:
    return asyncio.run(chunker.chunk(document, "A title", RULES, count))


def lines_of(document: ParsedDocument) -> Iterator[Block]:
    """The smallest blocks."""
    for block in document.blocks:
        if block.kind != "heading":
            yield from block.children or (block,)


def value_at(value: Json, path: str) -> Json:
    """The value at a path, found independently of the parser."""
    for key, number, quoted in _STEP.findall("" if path == "$" else path):
        value = value[key] if key else value[int(number)] if number else value[json.loads(quoted)]
    return value


def format_value(value: Json) -> str:
    """A value in the form in which it is shown."""
    if isinstance(value, list):
        return ", ".join(format_value(element) for element in cast("list[Json]", value))
    return value.strip() if isinstance(value, str) else json.dumps(value)


def random_data(seed: int) -> dict[str, Any]:
    """Nested data with odd keys and texts of several scripts."""
    dice = random.Random(seed)

    def value(depth: int) -> Json:
        match dice.randrange(7 if depth else 5):
            case 0:
                return dice.randrange(10**6)
            case 1:
                return dice.choice([True, False, 1.5, -0.25])
            case 2:
                return dice.choice(["Größe", "東京", "a\nb", 'say "x"', "Привет мир", "x" * 30, "back\\slash"])
            case 3:
                return " ".join(dice.choice(["tea", "cake", "sea", "north"]) for _ in range(dice.randrange(1, 200)))
            case 4:
                return [dice.choice(["red", "blue", "green"]) for _ in range(dice.randrange(1, 4))]
            case 5:
                return [value(depth - 1) for _ in range(dice.randrange(1, 9))]
            case _:
                keys = ["id", "name", "a b", "a.b", "x[0]", "naïve", "日本", 'q"q', "_k", "0"]
                return {key: value(depth - 1) for key in dice.sample(keys, dice.randrange(1, 6))}

    return {f"part{index}": value(4) for index in range(20)}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("indent", [None, 2])
def test_every_json_line_has_the_value_at_its_path(tmp_path: Path, seed: int, indent: int | None) -> None:
    data = random_data(seed)
    text = json.dumps(data, indent=indent, ensure_ascii=bool(seed % 2))
    document = parse_bytes(tmp_path, "a.json", text)
    source = text.split("\n")
    for line in lines_of(document):
        value = format_value(value_at(data, line.place.record_path))
        assert text_of(document, line).endswith(value)
        assert line.place.HasField("start_line") == (indent is not None)
        if indent is not None and re.fullmatch(r"[\w -]+", value, re.ASCII):
            assert value in "\n".join(source[line.place.start_line - 1 : line.place.end_line])


@pytest.mark.parametrize("seed", range(8))
def test_chunks_name_their_record_and_their_parts_the_exact_value(tmp_path: Path, seed: int) -> None:
    data = random_data(seed)
    document = parse_bytes(tmp_path, "a.json", json.dumps(data))
    for chunk in chunks_of(document):
        path, _, slice_end = chunk.place.record_path.partition(":")
        whole = value_at(data, path.rpartition("[")[0] if slice_end else path)
        if slice_end:
            whole = whole[int(path.rpartition("[")[2]) : int(slice_end.removesuffix("]"))]
        assert whole is not None
        bounds = [start for start, _ in chunk.places] + [len(chunk.text)]
        for (start, place), end in zip(chunk.places, bounds[1:], strict=True):
            value = value_at(data, place.record_path)
            part = chunk.text[start:end].strip()
            assert (
                part.endswith(format_value(value))
                or part in format_value(value)
                or not isinstance(value, str | int | float)
            )


def test_a_minified_file_becomes_chunks_with_paths(tmp_path: Path) -> None:
    orders = [{"id": number, "customer": f"Customer {number}", "paid": number % 2 == 0} for number in range(500)]
    document = parse_bytes(tmp_path, "a.json", json.dumps({"orders": orders}, separators=(",", ":")))
    chunks = chunks_of(document)
    assert len(chunks) < 120  # small records share a chunk
    first = chunks[0]
    assert first.place.record_path.startswith("orders[0:")
    exact = dict(first.places)
    assert exact[first.text.index("customer: Customer 3")].record_path == "orders[3].customer"
    assert not first.place.HasField("start_line")


def test_large_records_are_separate_sections(tmp_path: Path) -> None:
    records = [{"id": index, "text": "Some long words. " * 60} for index in range(3)]
    chunks = chunks_of(parse_bytes(tmp_path, "a.json", json.dumps({"items": records})))
    assert {chunk.section.split(" > ")[1] for chunk in chunks} == {"[0]", "[1]", "[2]"}
    assert all(chunk.place.record_path.startswith(f"items{chunk.section.split(' > ')[1]}") for chunk in chunks)


def test_json_lines_have_numbers_and_lines(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.jsonl", '{"name": "Tea"}\n\n{"name": "Cake", "price": 2}\n')
    assert [(line.place.record_path, line.place.start_line) for line in lines_of(document)] == [
        ("[0].name", 1),
        ("[1].name", 3),
        ("[1].price", 3),
    ]


def test_a_broken_line_of_json_lines_is_a_text_among_the_others(tmp_path: Path) -> None:
    text = '{"name": "Tea"}\n{"name": "Milk", "pri\n\n{"name": "Cake", "sizes": [1, 2]}\n["x"] y\n{"name": "Bun"}\n'
    document = parse_bytes(tmp_path, "a.jsonl", text)
    assert document.media_type == "application/jsonl"
    assert [
        (text_of(document, line), line.place.record_path, line.place.start_line) for line in lines_of(document)
    ] == [
        ("[0].name: Tea", "[0].name", 1),
        ('[1]: {"name": "Milk", "pri', "[1]", 2),
        ("[2].name: Cake", "[2].name", 4),
        ("[2].sizes: 1, 2", "[2].sizes", 4),
        ('[3]: ["x"] y', "[3]", 5),
        ("[4].name: Bun", "[4].name", 6),
    ]
    assert parse_bytes(tmp_path, "a.jsonl", "Nothing of this\nis JSON.\n1\n").media_type == "text/plain"


def test_json_lines_are_limited_like_other_json(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as refusal:
        parse_bytes(tmp_path, "a.jsonl", "[1,2,3\n" + "[1,2,3,4]\n" * 99, limits=ParseLimits(max_blocks=99))
    assert refusal.value.code is IngestCode.TOO_LARGE


def test_invalid_json_is_read_as_text(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.json", '// settings\n{"a": 1,}\n')
    assert document.media_type == "text/plain"
    assert document.text.startswith("// settings")


def test_very_deep_values_stay_in_json(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.json", '{"a":[' * 5000 + "1" + "]}" * 5000)
    assert len(document.blocks) < 70
    assert all(len(block.place.record_path) <= 250 for block in document.blocks)
    assert '"a":[{"a":' in text_of(document, document.blocks[-1])


def test_too_many_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.json", json.dumps(list(range(5000))), limits=ParseLimits(max_blocks=100))
    assert caught.value.code is IngestCode.TOO_LARGE


def test_empty_values_are_empty(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.json", '{"a": [], "b": {"c": null}, "d": ""}')
    assert caught.value.code is IngestCode.EMPTY


@pytest.mark.parametrize("seed", range(8))
def test_every_yaml_line_has_the_value_at_its_path(tmp_path: Path, seed: int) -> None:
    data = random_data(seed)
    text = yaml.safe_dump(data, allow_unicode=bool(seed % 2), default_flow_style=seed % 3 == 0)
    document = parse_bytes(tmp_path, "a.yaml", text)
    for line in lines_of(document):
        value = value_at(data, line.place.record_path)
        assert text_of(document, line).lower().endswith(format_value(value).lower())
        assert 1 <= line.place.start_line <= line.place.end_line <= text.count("\n") + 1


def test_a_billion_laughs_are_not_expanded(tmp_path: Path) -> None:
    laughs = "a: &a [lol, lol, lol]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert len(parse_bytes(tmp_path, "a.yaml", laughs).text) < 400


def test_an_alias_of_a_value_is_the_value(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.yaml", "host: &host db.example\nreplica:\n  host: *host\n")
    assert document.text == "host: db.example\nreplica.host: db.example"


def test_yaml_tags_create_no_objects_and_templates_are_text(tmp_path: Path) -> None:
    assert parse_bytes(tmp_path, "a.yaml", "a: !!python/object/apply:os.system [ls]\n").text == "a: ls"
    assert parse_bytes(tmp_path, "b.yaml", "{{- if x }}\nname: {{ .Values.name }}\n").media_type == "text/plain"


def test_several_yaml_documents_have_numbers(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.yml", "kind: Pod\n---\nkind: Service\n")
    assert [(line.place.record_path, line.place.start_line) for line in lines_of(document)] == [
        ("[0].kind", 1),
        ("[1].kind", 3),
    ]


CATALOGUE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE catalog [<!ENTITY lol "lol"><!ENTITY more "&lol;&lol;">]>
<c:catalog xmlns:c="urn:c" version="2">
  <book id="b1">
    <title>Tea &amp; cake &more;</title><price currency="EUR">5</price>
  </book>
  <book id="b2"><title>A <b>bold</b> claim</title></book>
  <empty/>
</c:catalog>
"""


def test_every_xml_line_has_the_value_at_its_path(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.xml", CATALOGUE)
    lines = {line.place.record_path: (text_of(document, line), line.place.start_line) for line in lines_of(document)}
    assert lines["/c:catalog/book[1]/title"] == ("book.title: Tea & cake &more;", 5)
    assert lines["/c:catalog/book[1]/price/@currency"] == ("book.price.currency: EUR", 5)
    assert lines["/c:catalog/book[2]/title"] == ("book.title: A bold claim", 7)
    etree: Any = import_module("lxml.etree")
    tree = etree.fromstring(CATALOGUE.encode(), etree.XMLParser(resolve_entities=False))
    for path, (text, _) in lines.items():
        value = str(tree.xpath(f"string({path})", namespaces={"c": "urn:c"}))
        assert "&more;" in text or text.endswith(value)


def test_an_attribute_of_a_short_list_keeps_its_name(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.xml", '<order><note lang="de"><line>Ja</line><line>Nein</line></note></order>')
    assert document.text == "note.lang: de\nnote/line[1]: Ja\nnote/line[2]: Nein"


def test_broken_xml_is_text(tmp_path: Path) -> None:
    assert parse_bytes(tmp_path, "a.xml", "<a><b>some words</a>").media_type == "text/plain"


@pytest.mark.parametrize(
    ("first", "last", "covering"),
    [
        ("orders[3]", "orders[7]", "orders[3:8]"),
        ("orders[3].name", "orders[3].price", "orders[3]"),
        ("orders[3].name", "orders[5].name", "orders[3:6]"),
        ("name", "price", "$"),
        ("[0]", "[9].x", "[0:10]"),
        ('["a.b"].c', '["a.b"].d', '["a.b"]'),
        ("/a/b[1]/c", "/a/b[2]", "/a"),
        ("a.b", "a.b", "a.b"),
    ],
)
def test_paths_of_several_values(first: str, last: str, covering: str) -> None:
    assert covering_path(first, last) == covering
