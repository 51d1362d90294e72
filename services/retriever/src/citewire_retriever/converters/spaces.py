"""Messages about embedding spaces: proto ↔ domain."""

from typing import Final

from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import corpus_pb2 as pb

from citewire_kit.errors import Violations
from citewire_retriever.converters.checks import check_space
from citewire_retriever.converters.search import from_space
from citewire_retriever.model import Space, SpaceFill, SpaceRole

_ROLES: Final[dict[SpaceRole, pb.SpaceRole]] = {
    "live": pb.SPACE_ROLE_LIVE,
    "next": pb.SPACE_ROLE_NEXT,
    "previous": pb.SPACE_ROLE_PREVIOUS,
    "further": pb.SPACE_ROLE_FURTHER,
}


def to_space(message: common_pb2.EmbeddingSpace) -> Space:
    """Reads a space. Raises `InvalidArgument` that names each wrong field."""
    violations = Violations()
    space = check_space(violations, "space", Space(message.model, message.revision, message.dimensions))
    violations.raise_if_any()
    return space


def from_fill(fill: SpaceFill) -> pb.SpaceInfo:
    """Writes a space and how far it is filled."""
    return pb.SpaceInfo(
        space=from_space(fill.space),
        live=fill.role == "live",
        role=_ROLES[fill.role],
        chunks_filled=fill.chunks_filled,
        chunks=fill.chunks,
        items=fill.items,
        items_filled=fill.items_filled,
        items_failed=fill.items_failed,
    )
