"""The images, by their Dockerfiles, and the script that builds them."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from scripts import images

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {
    "embedder": "services/embedder",
    "retriever": "services/retriever",
    "generator": "services/generator",
    "gateway": "gateway",
    "cli": "cli",
}


@pytest.fixture(params=FOLDERS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def dockerfile(name: str) -> str:
    return (ROOT / "deploy" / "images" / name / "Dockerfile").read_text()


def closure(folder: str) -> set[str]:
    """The folders of the workspace's members that a member needs, including its own."""
    members = {
        tomllib.loads(path.read_text())["project"]["name"]: str(path.parent.relative_to(ROOT))
        for pattern in ("protos", "libs/*", "services/*", "gateway", "clients/*", "cli")
        for path in ROOT.glob(f"{pattern}/pyproject.toml")
    }
    needed_folders: set[str] = set()
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        needed_folders.add(current)
        needed = tomllib.loads((ROOT / current / "pyproject.toml").read_text())["project"]["dependencies"]
        names = [re.split(r"[\[<>=; ]", dependency)[0] for dependency in needed]
        waiting += [members[name] for name in names if name in members and members[name] not in needed_folders]
    return needed_folders


def test_an_image_contains_its_services_dependencies_and_nothing_else(name: str) -> None:
    text = dockerfile(name)
    installed = re.search(rf"install\.sh own citewire-{name} (.+)", text)
    assert installed is not None
    folders = {folder.removeprefix("./") for folder in installed[1].split()}
    assert folders == closure(FOLDERS[name])
    assert folders == set(re.findall(r"^COPY (\S+)/pyproject\.toml", text, re.M))


def test_an_image_starts_as_a_numeric_user_and_without_a_shell(name: str) -> None:
    final = dockerfile(name).split("FROM ${BASE}\n")[-1]
    assert re.search(r"^USER 10001:10001$", final, re.M)
    assert re.search(rf'^ENTRYPOINT \["python", "-m", "citewire_{name}"\]$', final, re.M)
    assert re.search(r"^STOPSIGNAL SIGTERM$", final, re.M)
    assert not re.search(r"^HEALTHCHECK", final, re.M)
    assert "org.opencontainers.image.revision" in final
    assert "/usr/share/sbom" in final


def test_every_stage_has_the_configured_base(name: str) -> None:
    from_lines = re.findall(r"^FROM (\S+)", dockerfile(name), re.M)
    assert set(from_lines) == {"${BASE}"}


def test_the_images_have_the_makefiles_version_of_uv(name: str) -> None:
    makefile_version = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    assert makefile_version is not None
    assert f"ARG UV_VERSION={makefile_version[1]}\n" in dockerfile(name)


def test_no_layer_contains_network_settings_of_the_build(tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.touch()
    environ = {"SSL_CERT_FILE": str(certificates), "UV_DEFAULT_INDEX": "https://user:pass'word@index.test/simple"}
    secrets = images.write_secrets(tmp_path, environ)
    assert secrets["ca"] == certificates
    assert secrets["network"].read_text() == "UV_DEFAULT_INDEX='https://user:pass'\"'\"'word@index.test/simple'\n"
    assert secrets["network"].stat().st_mode & 0o077 == 0
    options = images.Options("buildah", "localhost/base", "{name}:dev", ROOT, "abc", secrets)
    command = " ".join(images.build_command("gateway", options))
    assert "pass" not in command
    assert f"id=network,src={tmp_path}/network" in command
    assert "--pull=never" in command
    assert "--build-arg BASE=localhost/base" in command


def test_without_a_builder_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_program: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", nothing)
    with pytest.raises(images.ImageError, match="apt-get install buildah"):
        images.find_engine()


def test_an_unknown_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(images.ImageError, match="there is no commit 'no-such-commit'"):
        images.export("no-such-commit", tmp_path)


def test_the_install_script_is_valid_shell() -> None:
    for script in ("deploy/images/install.sh", "deploy/rehearsal/world/postgres.sh"):
        subprocess.run(["sh", "-n", ROOT / script], check=True)
    subprocess.run(["bash", "-n", ROOT / "deploy/rehearsal/base.sh"], check=True)
