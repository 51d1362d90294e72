"""The schema `corpus` and its migrations."""

from citewire_kit.migrate import OwnedSchema

SCHEMA = OwnedSchema(
    "corpus", package="citewire_retriever", prefix="CITEWIRE_RETRIEVER_", on_nodes="citus/distribute.sql"
)
