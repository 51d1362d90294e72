"""The mapping between our enums and those of the contracts."""

from enum import StrEnum

import pytest
from citewire.common.v1 import common_pb2 as pb

from citewire_kit.enums import EnumMap, enum_text


class Kind(StrEnum):
    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"


class KindWithLocal(StrEnum):
    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    LOCAL = "local"


def test_every_member_survives_the_round_trip() -> None:
    kinds = EnumMap(Kind, pb.ProviderType)

    assert [kinds.to_proto(kind) for kind in Kind] == [
        pb.PROVIDER_TYPE_CHAT,
        pb.PROVIDER_TYPE_EMBEDDING,
        pb.PROVIDER_TYPE_RERANK,
    ]
    assert [kinds.from_proto(kinds.to_proto(kind)) for kind in Kind] == list(Kind)


def test_unspecified_and_unknown_numbers_have_no_member() -> None:
    kinds = EnumMap(Kind, pb.ProviderType)

    assert kinds.from_proto(pb.PROVIDER_TYPE_UNSPECIFIED) is None
    assert kinds.from_proto(99) is None


def test_unspecified_may_mean_a_member() -> None:
    kinds = EnumMap(Kind, pb.ProviderType, unspecified=Kind.CHAT)

    assert kinds.from_proto(pb.PROVIDER_TYPE_UNSPECIFIED) is Kind.CHAT
    assert kinds.to_proto(Kind.CHAT) == pb.PROVIDER_TYPE_CHAT


def test_a_member_without_a_counterpart_is_refused() -> None:
    with pytest.raises(TypeError, match="local"):
        EnumMap(KindWithLocal, pb.ProviderType)


def test_a_local_member_is_named() -> None:
    kinds = EnumMap(KindWithLocal, pb.ProviderType, internal=(KindWithLocal.LOCAL,))

    assert kinds.from_proto(pb.PROVIDER_TYPE_RERANK) is KindWithLocal.RERANK
    with pytest.raises(KeyError):
        kinds.to_proto(KindWithLocal.LOCAL)


@pytest.mark.parametrize(
    ("number", "text"),
    [(pb.PROVIDER_TYPE_CHAT, "chat"), (pb.PROVIDER_TYPE_UNSPECIFIED, "unspecified"), (99, "unspecified")],
)
def test_the_text_of_a_number(number: int, text: str) -> None:
    assert enum_text(pb.ProviderType, number) == text
