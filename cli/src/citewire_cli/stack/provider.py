"""Which language models will receive text, according to the environment, and how that is reported."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

EXTRACTIVE = "extractive: quotes the best sentences of your documents; no text leaves this machine"
OLLAMA_BASE = "http://localhost:11434"
OLLAMA_VARIABLES = ("OLLAMA_BASE_URL", "LLM_MODEL", "EMBEDDING_MODEL")
"""Any of them selects Ollama for the `simple` profile; the first one offers it to all."""

SECRETS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
"""Keys by their providers' own names: our processes get them under ours."""

CALLERS = ("embedder", "generator")
"""The processes that call providers: no other one learns a key."""

_GENERATOR = "CITEWIRE_GENERATOR_"
_EMBEDDER = "CITEWIRE_EMBEDDER_"
_SIMPLE = "CITEWIRE_GATEWAY_SIMPLE_"
_MODELS = {"anthropic": "claude-sonnet-4-6", "openai": "gpt-4.1-mini", "ollama": "llama3.2"}
_BASES = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com", "ollama": OLLAMA_BASE}
_EMBEDDING_MODEL = "nomic-embed-text"


def provider_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of our processes that the providers' usual variables stand for; ours, if set, count more.

    Who answers by default: Anthropic, OpenAI, Ollama, in that order of precedence; nobody's text goes to a second one
    unless `CITEWIRE_GENERATOR_FALLBACKS` says so.
    """
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    settings: dict[str, str] = {}
    for kind in ("anthropic", "openai"):
        name = kind.upper()
        if key := given.get(f"{name}_API_KEY"):
            settings[f"{_GENERATOR}{name}_API_KEY"] = key
            settings[f"{_GENERATOR}PROVIDER"] = settings.get(f"{_GENERATOR}PROVIDER", kind)
            if base := given.get(f"{name}_BASE_URL"):
                settings[f"{_GENERATOR}{name}_API_BASE"] = base
    if "OPENAI_API_KEY" in given:
        settings["CITEWIRE_EMBEDDER_OPENAI_API_KEY"] = given["OPENAI_API_KEY"]
        if base := given.get("OPENAI_BASE_URL"):
            settings["CITEWIRE_EMBEDDER_OPENAI_API_BASE"] = base
    if any(name in given for name in OLLAMA_VARIABLES):
        settings |= _ollama(given)
        if "OLLAMA_BASE_URL" in given:
            settings[f"{_GENERATOR}PROVIDER"] = settings.get(f"{_GENERATOR}PROVIDER", "ollama")
    return {name: value for name, value in settings.items() if name not in given}


def _ollama(given: Mapping[str, str]) -> dict[str, str]:
    base = given.get("OLLAMA_BASE_URL", OLLAMA_BASE)
    model, embedding = given.get("LLM_MODEL", _MODELS["ollama"]), given.get("EMBEDDING_MODEL", _EMBEDDING_MODEL)
    window = given.get("OLLAMA_CONTEXT_LENGTH")
    return {
        f"{_GENERATOR}OLLAMA_API_BASE": base,
        f"{_GENERATOR}OLLAMA_MODEL": model,
        **({f"{_GENERATOR}OLLAMA_CONTEXT_WINDOW": window} if window else {}),
        "CITEWIRE_EMBEDDER_OLLAMA_API_BASE": base,
        "CITEWIRE_EMBEDDER_OLLAMA_MODEL": embedding,
        f"{_SIMPLE}MODEL": f"ollama/{model}",
        f"{_SIMPLE}EMBEDDING_MODEL": embedding,
        "CITEWIRE_WORKER_MORE_MODELS": embedding,
        # A server that loads a model when it is first asked for it takes longer than a question's embedding may.
        "CITEWIRE_GATEWAY_EMBED_SECONDS": "30",
    }


def keep_secrets(process: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Leaves out of a process's environment the providers' keys that it has no use for."""
    own = f"CITEWIRE_{process.upper()}_"
    may_call = process in CALLERS
    return {
        name: value for name, value in environ.items() if not _is_secret(name) or (may_call and name.startswith(own))
    }


def describe_provider(environ: Mapping[str, str]) -> str:
    """One line about who answers, as the generator's settings choose it, and whether text leaves the machine."""
    environ = {**environ, **provider_environ(environ)}
    kind = environ.get(f"{_GENERATOR}PROVIDER", "")
    embedded = _embedded(environ)
    if not kind or kind == "extractive":
        return f"{EXTRACTIVE.partition(';')[0]}; {embedded}" if embedded else EXTRACTIVE
    model, base = _model(kind, environ), _base(kind, environ)
    host = _host(base)
    leaves = "no text leaves this machine" if _here(host) else f"questions and the passages found are sent to {host}"
    line = f"{model} at {base}: {leaves}"
    if embedded:
        line = f"{line}; {embedded}"
    others = [name.strip() for name in environ.get(f"{_GENERATOR}FALLBACKS", "").split(",") if name.strip()]
    return f"{line}; if it fails: {', '.join(_fallback(name, environ) for name in others)}" if others else line


def describe_simple(environ: Mapping[str, str]) -> str | None:
    """One line about the models of the `simple` profile, None if it has none of its own."""
    environ = {**environ, **provider_environ(environ)}
    model, embedding = environ.get(f"{_SIMPLE}MODEL", ""), environ.get(f"{_SIMPLE}EMBEDDING_MODEL", "")
    if not model and not embedding:
        return None
    base = environ.get(f"{_GENERATOR}OLLAMA_API_BASE", OLLAMA_BASE)
    names = " and ".join(name.removeprefix("ollama/") for name in (model, embedding) if name)
    where = _host(base)
    leaves = "no text leaves this machine" if _here(where) else f"questions and documents are sent to {where}"
    return f"{names} at {base} (POST /api/chat/): {leaves}"


def _embedded(environ: Mapping[str, str]) -> str:
    """The provider that embeds the documents of a new library, if their text leaves the machine for it."""
    kind = environ.get(f"{_EMBEDDER}PROVIDER", "")
    if not kind and environ.get(f"{_EMBEDDER}OPENAI_API_KEY", ""):
        kind = "openai"
    if kind in ("", "local"):
        return ""
    host = _host(environ.get(f"{_EMBEDDER}{_middle(kind)}API_BASE", "") or _BASES.get(kind, ""))
    return "" if _here(host) else f"documents of a new library are sent to {host} to be embedded"


def _fallback(name: str, environ: Mapping[str, str]) -> str:
    """A fallback's name, and where its text goes if that isn't here."""
    kinds = [kind for kind in (*_MODELS, "openai-responses", "openai-compatible") if name.startswith(f"{kind}/")]
    kinds += [kind for kind in (*_MODELS, "openai-compatible") if _model(kind, environ) == name]
    if not kinds:
        return name
    host = _host(_base(kinds[0], environ))
    return name if _here(host) else f"{name} (sent to {host})"


def _model(kind: str, environ: Mapping[str, str]) -> str:
    return environ.get(f"{_GENERATOR}{_middle(kind)}MODEL", "") or _MODELS.get(_settings_of(kind), "")


def _base(kind: str, environ: Mapping[str, str]) -> str:
    return environ.get(f"{_GENERATOR}{_middle(kind)}API_BASE", "") or _BASES.get(_settings_of(kind), "")


def _middle(kind: str) -> str:
    return "" if kind == "openai-compatible" else f"{_settings_of(kind).upper()}_"


def _settings_of(kind: str) -> str:
    """The kind whose settings a kind has: OpenAI's two APIs have the same."""
    return "openai" if kind == "openai-responses" else kind


def _host(base: str) -> str:
    return urlsplit(base if "//" in base else f"//{base}").hostname or base


def _here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_secret(name: str) -> bool:
    return name in SECRETS or (
        name.startswith("CITEWIRE_") and name.endswith("_API_KEY") and name != "CITEWIRE_API_KEY"
    )
