"""JSON, JSON Lines, YAML and XML by records: the stored text is rendered, and every line of it has its path."""

from citewire_retriever.ingest.document import Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.json_tree import NotJsonError, read_json, read_json_lines
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.plain import parse_plain
from citewire_retriever.ingest.parsers.records import Node, measure, write_records
from citewire_retriever.ingest.parsers.xml_tree import NotXmlError, read_xml
from citewire_retriever.ingest.parsers.yaml_tree import NotYamlError, read_yaml

_TITLES = ("title", "name")


def parse_data(text: str, limits: ParseLimits, *, media_type: str) -> ParsedDocument:
    """Parses decoded text of one of these media types (see `kinds`). Raises as the functions below."""
    match media_type:
        case "application/yaml":
            return parse_yaml(text, limits)
        case "application/xml":
            return parse_xml(text, limits)
        case _:
            return parse_json(text, limits, media_type=media_type)


def parse_json(text: str, limits: ParseLimits, *, media_type: str = "application/json") -> ParsedDocument:
    """Parses decoded JSON, or JSON Lines if the media type says so or several values follow one another.

    Text with another syntax, such as comments, is read as plain text; of JSON Lines, only the lines that have it.

    Raises:
        IngestError: EMPTY if all values are empty; TOO_LARGE.
    """
    lines = media_type == "application/jsonl"
    try:
        root = read_json(text, limits, many=lines)
    except NotJsonError:
        try:
            root = read_json_lines(text, limits) if lines else read_json(text, limits, many=True)
        except NotJsonError:
            return parse_plain(text, limits)
    return rendered(root, media_type, limits)


def parse_yaml(text: str, limits: ParseLimits) -> ParsedDocument:
    """Parses decoded YAML, all of its documents. Text with another syntax, such as a template, is read as plain text.

    Raises:
        IngestError: EMPTY, TOO_LARGE.
    """
    try:
        return rendered(read_yaml(text, limits), "application/yaml", limits)
    except NotYamlError:
        return parse_plain(text, limits)


def parse_xml(text: str, limits: ParseLimits) -> ParsedDocument:
    """Parses decoded XML. Text that isn't well-formed is read as plain text.

    Raises:
        IngestError: EMPTY, TOO_LARGE.
    """
    try:
        return rendered(read_xml(text, limits), "application/xml", limits)
    except NotXmlError:
        return parse_plain(text, limits)


def rendered(root: Node, media_type: str, limits: ParseLimits) -> ParsedDocument:
    """A tree as a document.

    Raises:
        IngestError: EMPTY, TOO_LARGE.
    """
    measure(root)
    builder = TextBuilder(limits)
    write_records(builder, root)
    if not builder.blocks:
        raise IngestError(IngestCode.EMPTY, "All values in the file are empty.")
    return ParsedDocument(Format.DATA, media_type, builder.text(), tuple(builder.blocks), title=_title(root))


def _title(root: Node) -> str | None:
    """A short value of the root that names it."""
    values = {child.name: child.value for child in root.children if not child.children}
    title = next((one_line(values[name]) for name in _TITLES if values.get(name)), "")
    return title[:LABEL_LIMIT] or None
