"""The rehearsal's parts: metrics, missing tools, and valid settings in pods."""

import pytest

from citewire_embedder.settings import EmbedderSettings
from citewire_gateway.settings import GatewaySettings
from citewire_generator.settings import GeneratorSettings
from citewire_kit.settings import ProcessSettings, load_settings
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.settings import RetrieverSettings
from deploy.rehearsal import __main__ as command
from deploy.rehearsal import specs
from deploy.rehearsal.build import CURRENT_TAG, PREVIOUS_TAG, commands
from deploy.rehearsal.engine import missing
from deploy.rehearsal.metrics import Samples
from deploy.rehearsal.specs import SERVICES, Service

PAGE = """
# HELP calls Calls.
# TYPE calls counter
calls_total{grpc_service="citewire.embedder.v1.EmbedderService",grpc_code="OK"} 7.0
calls_total{grpc_service="citewire.embedder.v1.EmbedderService",grpc_code="UNAVAILABLE"} 2.0
calls_total{grpc_service="grpc.health.v1.Health",grpc_code="OK"} 100.0
text{said="a \\"quoted\\", word"} 1e3 1700000000000
up 1.0
"""

SETTINGS: dict[Service, type[ProcessSettings]] = {
    "embedder": EmbedderSettings,
    "retriever": RetrieverSettings,
    "worker": WorkerSettings,
    "generator": GeneratorSettings,
    "gateway": GatewaySettings,
}


def test_samples_are_summed_by_the_beginning_of_their_labels() -> None:
    samples = Samples.parse(PAGE)
    assert samples.total("calls_total", grpc_service="citewire.") == 9
    assert samples.total("calls_total", grpc_service="citewire.", grpc_code="OK") == 7
    assert samples.total("calls_total") == 109
    assert samples.total("text", said='a \\"quoted\\"') == 1000
    assert samples.total("absent") == 0


def test_on_a_complete_machine_nothing_is_missing() -> None:
    assert missing(0, lambda program: f"/usr/bin/{program}", lambda _: True) == []


def test_missing_tools_are_named_with_a_remedy() -> None:
    problems = missing(1000, lambda program: None if program == "podman" else program, lambda _: False)
    assert any("root" in line for line in problems)
    assert any("apt-get install podman aardvark-dns" in line for line in problems)


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_accepts_its_pods_settings(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = specs.environ(service, "pass/word")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(SETTINGS[service])
    known = {settings.env_name(field) for field in type(settings).model_fields}
    assert set(environ) <= known, set(environ) - known
    if service != "worker":
        assert settings.port == specs.PORTS[service]
    assert settings.metrics_port == specs.METRICS_PORTS[service]


def test_a_password_of_any_kind_fits_into_a_connection_string() -> None:
    assert specs.dsn("role", "a/b@c", "host") == "postgresql://role:a%2Fb%40c@host:5432/citewire"
    assert "PASSWORD 'it''s'" in specs.setup_sql("it's")


def test_an_upgrade_needs_the_earlier_images_too() -> None:
    def tags(shows: list[str]) -> list[str]:
        return [line[line.index("--tag") + 1] for line in commands(shows, commit=None, previous="HEAD~3")]

    assert tags(["roll"]) == [CURRENT_TAG, CURRENT_TAG]
    assert tags(["roll", "upgrade"]) == [CURRENT_TAG, CURRENT_TAG, PREVIOUS_TAG]
    assert commands(["upgrade"], commit="HEAD", previous="HEAD~3")[-1][-2:] == ["--commit", "HEAD~3"]
    assert commands(["upgrade"], commit="HEAD", previous="HEAD~3")[0][-2:] == ["--commit", "HEAD"]


def test_an_unknown_show_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["rol"])
    assert "there is no show 'rol'" in capsys.readouterr().err


def test_without_root_the_command_says_what_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert command.main(["answer"]) == 1
    assert "root" in capsys.readouterr().err
