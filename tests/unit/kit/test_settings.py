"""Settings: names, defaults, refusals."""

from __future__ import annotations

import pytest
from pydantic import Field, SecretStr, ValidationError

from citewire_kit.settings import ProcessSettings, is_loopback, load_settings, settings_config


class FakeSettings(ProcessSettings):
    model_config = settings_config("CITEWIRE_FAKE_")

    port: int = 50099
    metrics_port: int = 9199
    api_key: SecretStr = SecretStr("")
    batch_tokens: int = Field(default=4096, ge=1)


class DemandingSettings(ProcessSettings):
    model_config = settings_config("CITEWIRE_FAKE_")

    port: int = 50099
    metrics_port: int = 9199
    dsn: str
    pin: SecretStr = Field(min_length=8)


def test_defaults_are_safe() -> None:
    settings = load_settings(FakeSettings)
    assert settings.auth == "keys"
    assert settings.host == settings.metrics_host == "127.0.0.1"
    assert settings.otlp_endpoint is None
    assert settings.log_format == "json"
    with pytest.raises(ValidationError):
        settings.port = 1


def test_own_variables_have_the_prefix_and_shared_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "CITEWIRE_FAKE_PORT": "1234",
        "CITEWIRE_AUTH": "off",
        "CITEWIRE_LOG_LEVEL": "DEBUG",
        "CITEWIRE_LOG_FORMAT": "console",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317",
        "CITEWIRE_FAKE_METRICS_PORT": "",  # empty means unset
    }.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(FakeSettings)
    assert (settings.port, settings.auth, settings.log_level, settings.log_format, settings.otlp_endpoint) == (
        1234,
        "off",
        "DEBUG",
        "console",
        "http://localhost:4317",
    )
    assert settings.metrics_port == 9199


def test_tests_may_build_settings_with_keywords() -> None:
    settings = FakeSettings(port=0, auth="off", log_level="ERROR", otlp_endpoint="http://x:1")
    assert (settings.port, settings.auth, settings.log_level) == (0, "off", "ERROR")


@pytest.mark.parametrize("field", ["host", "metrics_host"])
@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.1", "example.org"])  # noqa: S104 # refused by the code under test
def test_without_auth_all_ports_stay_on_loopback(field: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITEWIRE_AUTH", "off")
    monkeypatch.setenv(f"CITEWIRE_FAKE_{field.upper()}", address)
    with pytest.raises(ValidationError, match=f"CITEWIRE_FAKE_{field.upper()} must be a loopback address"):
        FakeSettings()
    monkeypatch.setenv("CITEWIRE_AUTH", "keys")
    assert getattr(FakeSettings(), field) == address


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback(address: str) -> None:
    assert is_loopback(address)
    assert FakeSettings(auth="off", host=address, metrics_host=address).host == address


def test_each_problem_is_printed_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CITEWIRE_FAKE_PORT", "banana")
    monkeypatch.setenv("CITEWIRE_AUTH", "maybe")
    monkeypatch.setenv("CITEWIRE_FAKE_PIN", "hunter2")
    with pytest.raises(SystemExit) as raised:
        load_settings(DemandingSettings)
    assert raised.value.code == 2
    text = capsys.readouterr().err
    lines = {line.strip().split(":")[0]: line for line in text.splitlines()[1:]}
    assert set(lines) == {"CITEWIRE_FAKE_PORT", "CITEWIRE_AUTH", "CITEWIRE_FAKE_DSN", "CITEWIRE_FAKE_PIN"}
    assert "'banana'" in lines["CITEWIRE_FAKE_PORT"]
    assert "is required and not set" in lines["CITEWIRE_FAKE_DSN"]
    assert "hunter2" not in text
    assert "Traceback" not in text


def test_a_refusal_of_several_fields_together_is_printed_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CITEWIRE_AUTH", "off")
    monkeypatch.setenv("CITEWIRE_FAKE_HOST", "0.0.0.0")  # noqa: S104 # refused by the code under test
    with pytest.raises(SystemExit):
        load_settings(FakeSettings)
    assert "CITEWIRE_FAKE_HOST must be a loopback address while CITEWIRE_AUTH is off" in capsys.readouterr().err
