"""Documents inside of documents: cells of a notebook, a mail's body and attachments."""

from dataclasses import replace

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument, TextBuilder


def embed(builder: TextBuilder, inner: ParsedDocument, place: Place, *, deeper: int = 0) -> None:
    """Appends a document's text and blocks.

    Args:
        builder: What it becomes a part of.
        inner: The document.
        place: Where it stands in the outer file. It is added to the places that the inner blocks have, but for their
            lines where they aren't lines of a file that a reader could open.
        deeper: What is added to the levels of its headings.

    Raises:
        IngestError: TOO_LARGE.
    """
    offset, _ = builder.write(inner.text)
    for block in inner.blocks:
        builder.add(_moved(block, offset, place, deeper))


def _moved(block: Block, offset: int, outer: Place, deeper: int) -> Block:
    place = Place()
    place.CopyFrom(block.place)
    if not outer.HasField("part"):
        place.ClearField("start_line")
        place.ClearField("end_line")
    place.MergeFrom(outer)
    return replace(
        block,
        start=block.start + offset,
        end=block.end + offset,
        level=block.level + deeper if block.kind is BlockKind.HEADING else 0,
        place=place,
        children=tuple(_moved(child, offset, outer, deeper) for child in block.children),
    )
