"""Which language model will see text."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

EXTRACTIVE = "extractive: quotes the best sentences of your documents; no text leaves this machine"


def describe_provider(environ: Mapping[str, str]) -> str:
    """One line about who answers, as the generator's settings choose it, and whether text leaves the machine."""
    if environ.get("CITEWIRE_GENERATOR_PROVIDER", "") != "openai-compatible":
        return EXTRACTIVE
    base, model = environ.get("CITEWIRE_GENERATOR_API_BASE", ""), environ.get("CITEWIRE_GENERATOR_MODEL", "")
    host = urlsplit(base if "//" in base else f"//{base}").hostname or base
    leaves = "no text leaves this machine" if _here(host) else f"questions and the passages found are sent to {host}"
    return f"{model} at {base}: {leaves}"


def _here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
