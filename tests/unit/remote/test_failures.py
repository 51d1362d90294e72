"""Providers' failures as errors that clients may see and lines that the log may contain; their base URLs."""

from __future__ import annotations

import pytest

from citewire_remote.failures import ProviderError, from_status, from_stream, read_error, read_retry_after
from citewire_remote.kinds import normalise_base
from citewire_remote.redaction import Redaction

KEY = "sk-canary-0123456789"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("http://localhost:11434/", "http://localhost:11434/v1"),
        (" https://api.openai.com/v1/ ", "https://api.openai.com/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://host/openai", "https://host/openai/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
    ],
)
def test_base_urls_end_in_v1(url: str, expected: str) -> None:
    assert normalise_base(url) == expected


@pytest.mark.parametrize(
    "url", ["", "localhost:11434", "ftp://x", "file:///etc", "http://", "http://u:p@h/v1", "http://h/?k=1"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must"):
        normalise_base(url)


@pytest.mark.parametrize(
    "host",
    [
        "0x7f000001",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.1.",
        "127.0.0.0x1",
        "256.1.1.1",
        "1.2.3.4.5",
        "a.0x1",
        "１２７.０.０.１",  # full-width digits, as in hostile input
        "①②⑦.0.0.1",
        "127。0。0。1",
        "127．0．0．1",
        "%31%32%37.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1%25eth0]",
        "ex ample.com",
        "example.com\\@127.0.0.1",
        "exam\u200bple.com",
    ],
)
def test_odd_spellings_of_addresses_are_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"must|not allowed"):
        normalise_base(f"http://{host}/v1")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.0.0.1:8000", "[::1]:8000", "[2001:db8::1]", "a1.example.com", "1.example", "x.1a", "例え.jp"],
)
def test_usual_spellings_are_accepted(host: str) -> None:
    assert normalise_base(f"http://{host}").endswith("/v1")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "nonsense"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "999999"}, 3600.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers) == seconds


def test_a_server_error_without_advice_asks_for_a_second() -> None:
    assert from_status(503, ProviderError(), "p").retry_after == 1.0


def test_logs_contain_no_key() -> None:
    base = "https://llm.example.com/tenants/s3cret/v1"
    text = f"bad key {KEY}\nat {base}/chat/completions, /tenants/s3cret/v1/models " + "x" * 1000
    shown = ProviderError(code=KEY, type=f"x{KEY}", text=text).log_fields(Redaction(KEY, base))
    assert KEY not in str(shown)
    assert "s3cret" not in str(shown)
    assert (shown["error_code"], shown["error_type"]) == ("[hidden]", "x[hidden]")
    assert shown["error_text"].startswith("bad key [hidden] at [hidden]/chat/completions, [hidden]/v1/models xxx")
    assert len(shown["error_text"]) == 300


def test_common_words_are_not_redacted() -> None:
    assert Redaction("", "http://localhost:11434/v1")("all of v1 and / is shown") == "all of v1 and / is shown"


@pytest.mark.parametrize("code", ["9" * 5_000, int("9" * 4_000), {"a": 1}, [], True, "٤٢٩", "²"])
def test_an_invalid_code_is_ignored(code: object) -> None:
    error = from_stream(read_error({"error": {"message": "secret", "code": code, "type": code}}), "test")
    assert error.reason == "PROVIDER_STREAM_BROKEN"


def test_an_http_status_in_a_stream() -> None:
    assert from_stream(read_error({"error": {"code": 429}}), "test").reason == "PROVIDER_RATE_LIMITED"
    assert from_stream(read_error({"error": {"code": "502"}}), "test").reason == "PROVIDER_UNAVAILABLE"
