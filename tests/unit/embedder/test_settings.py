from __future__ import annotations

import pytest

from citewire_embedder.providers.base import Precision
from citewire_embedder.settings import EmbedderSettings
from citewire_kit.settings import load_settings


def test_defaults() -> None:
    settings = EmbedderSettings()
    assert (settings.port, settings.metrics_port, settings.host) == (50051, 9101, "127.0.0.1")
    assert (settings.model, settings.precision) == ("all-MiniLM-L6-v2", Precision.FP32)


def test_the_largest_requests_fit() -> None:
    limits = EmbedderSettings().limits()
    assert limits.document_tokens >= 256 * 256, "256 inputs of the default model's window"
    assert limits.batch.tokens >= 256


def test_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITEWIRE_EMBEDDER_PRECISION", "int8")
    monkeypatch.setenv("CITEWIRE_EMBEDDER_MODEL", "/models/mine")
    monkeypatch.setenv("CITEWIRE_EMBEDDER_BATCH_TOKENS", "2048")
    settings = load_settings(EmbedderSettings)
    assert (settings.precision, settings.model) == (Precision.INT8, "/models/mine")
    assert settings.limits().batch.tokens == 2048


@pytest.mark.parametrize(
    ("name", "value"),
    [("PRECISION", "fp8"), ("BATCH_TEXTS", "0"), ("CACHE_ENTRIES", "-1"), ("STREAM_AHEAD", "99")],
)
def test_invalid_values_end_the_process_and_name_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setenv(f"CITEWIRE_EMBEDDER_{name}", value)
    with pytest.raises(SystemExit) as caught:
        load_settings(EmbedderSettings)
    assert caught.value.code == 2
    assert f"CITEWIRE_EMBEDDER_{name}" in capsys.readouterr().err
