"""The bodies of the routes, by what they are about."""

from typing import Literal

ScopeName = Literal["org", "user"]
