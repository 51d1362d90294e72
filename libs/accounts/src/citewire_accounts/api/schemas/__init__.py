"""The bodies of the routes, by topic."""

from typing import Literal

ScopeName = Literal["org", "user"]
