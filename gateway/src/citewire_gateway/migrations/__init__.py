"""The schema `chat` and its migrations."""

from citewire_kit.migrate import OwnedSchema

SCHEMA = OwnedSchema("chat", package="citewire_gateway", prefix="CITEWIRE_GATEWAY_")
