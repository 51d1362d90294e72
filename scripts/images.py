"""Builds the images of all services and of the command line, with buildah, podman or docker.

`python scripts/images.py` builds all five and prints their sizes. Options: `--help`. On a machine without access to an
image registry, `--base debian` first builds a base from Debian's packages (as root, with debootstrap and buildah).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("embedder", "retriever", "generator", "gateway", "cli")
REHEARSAL = "rehearsal"
"""Images that deploy/rehearsal adds to the services; built only on request."""
ENGINES = ("buildah", "podman", "docker")
DEBIAN = "debian"
DEBIAN_TAG = "localhost/citewire-base:latest"
DEFAULT_TAG = "localhost/citewire/{name}:dev"

CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
"""Variables with the certificates that this machine trusts, if they aren't the usual ones; the first one wins."""

NETWORK = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
"""Variables with the package sources. The build gets them as a secret, so no layer and no history contains them."""


class ImageError(RuntimeError):
    """An image can't be built; the message gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of the command."""

    engine: str
    base: str | None
    tag: str
    context: Path
    revision: str
    secrets: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Image:
    """One image."""

    name: str
    tag: str
    size: str
    seconds: float


def find_engine(name: str | None = None) -> str:
    """Returns the program that builds images on this machine.

    Raises:
        ImageError: There is none, or not the requested one.
    """
    candidates = (name,) if name else ENGINES
    for engine in candidates:
        if shutil.which(engine) and (engine != "docker" or _docker_answers()):
            return engine
    raise ImageError(
        f"no working {' or '.join(candidates)} found: images need one of {', '.join(ENGINES)} "
        "(Debian, Ubuntu: apt-get install buildah)"
    )


def build_command(name: str, options: Options) -> list[str]:
    """Returns the command that builds the image of one service."""
    folder = ("rehearsal",) if name == REHEARSAL else ("images", name)
    dockerfile = options.context.joinpath("deploy", *folder, "Dockerfile")
    command = {
        # A chroot needs no privileges, and it reaches the package hosts like this machine.
        "buildah": ["buildah", "bud", "--isolation", "chroot", "--network", "host", "--layers"],
        "podman": ["podman", "build", "--network", "host", "--layers"],
        "docker": ["docker", "build", "--network", "host"],
    }[options.engine]
    if options.engine != "docker":
        local = (options.base or "").startswith("localhost/")
        command += ["--pull=never" if local else "--pull=missing", "--format", "oci"]
    arguments = {"REVISION": options.revision, "CREATED": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    if options.base:
        arguments["BASE"] = options.base
    command += [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
    command += [part for key, path in options.secrets.items() for part in ("--secret", f"id={key},src={path}")]
    return [*command, "-t", options.tag.format(name=name), "-f", str(dockerfile), str(options.context)]


def build(name: str, options: Options) -> Image:
    """Builds one image.

    Raises:
        ImageError: The build failed; the message ends with its last output.
    """
    started = time.monotonic()
    environ = {**os.environ, "DOCKER_BUILDKIT": "1"}
    command = build_command(name, options)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode != 0:
        printed = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise ImageError(f"{name} wasn't built:\n{printed}\n\nThe command: {shlex.join(command)}")
    tag = options.tag.format(name=name)
    return Image(name, tag, _size(options.engine, tag), time.monotonic() - started)


def write_secrets(folder: Path, environ: Mapping[str, str]) -> dict[str, Path]:
    """Writes this machine's network settings for the build, as files that no layer contains."""
    secrets: dict[str, Path] = {}
    certificates = next((environ[name] for name in CERTIFICATES if environ.get(name)), None)
    if certificates and Path(certificates).is_file():
        secrets["ca"] = Path(certificates)
    lines = [f"{name}={shlex.quote(environ[name])}\n" for name in NETWORK if environ.get(name)]
    if lines:
        secrets["network"] = folder / "network"
        secrets["network"].touch(mode=0o600)
        secrets["network"].write_text("".join(lines))
    return secrets


def copy_sboms(engine: str, tags: Mapping[str, str], folder: Path) -> list[Path]:
    """Copies the bill of materials (CycloneDX JSON) out of each image."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_copy_sbom(engine, name, tag, folder) for name, tag in tags.items()]


def debian_base() -> str:
    """Builds the base from Debian's packages unless it exists; returns its tag."""
    if shutil.which("buildah") and _output("buildah", "images", "--quiet", DEBIAN_TAG, may_fail=True):
        return DEBIAN_TAG
    done = subprocess.run([ROOT / "deploy" / "rehearsal" / "base.sh", DEBIAN_TAG], check=False)
    if done.returncode != 0:
        raise ImageError("the base couldn't be built; see above")
    return DEBIAN_TAG


def revision(commit: str | None) -> str:
    """Returns the full name of a commit, or the checkout's with `-dirty` if files differ; `unknown` without git."""
    how = ("describe", "--always", "--dirty", "--abbrev=40") if commit is None else ("rev-parse", commit)
    return _output("git", "-C", str(ROOT), *how, may_fail=True) or "unknown"


def export(commit: str, folder: Path) -> Path:
    """Writes the files of a commit into a folder, like a clean checkout.

    A commit older than the images is built with today's instructions.

    Raises:
        ImageError: The commit doesn't exist here.
    """
    if not _output("git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", may_fail=True):
        raise ImageError(f"there is no commit {commit!r} here")
    archive = folder / "commit.tar"
    target = folder / "commit"
    target.mkdir()
    _output("git", "-C", str(ROOT), "archive", f"--output={archive}", commit)
    _output("tar", "--extract", f"--file={archive}", f"--directory={target}")
    if not (target / "deploy" / "images").is_dir():
        shutil.copytree(ROOT / "deploy" / "images", target / "deploy" / "images")
        shutil.copyfile(ROOT / ".dockerignore", target / ".dockerignore")
    return target


def main(arguments: Sequence[str]) -> int:
    """Builds the images in the arguments; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    with ExitStack() as stack:
        try:
            engine = find_engine(parsed.engine)
            base = debian_base() if parsed.base == DEBIAN else parsed.base
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="citewire-images-")))
            context = export(parsed.commit, folder) if parsed.commit else ROOT
            secrets = write_secrets(folder, os.environ)
            options = Options(engine, base, parsed.tag, context, revision(parsed.commit), secrets)
            built: list[Image] = []
            for name in parsed.only or NAMES:
                built.append(build(name, options))
                _say(f"{built[-1].tag:40} {built[-1].size:>9}  built in {built[-1].seconds:.0f} s")
            if parsed.sbom:
                for path in copy_sboms(engine, {image.name: image.tag for image in built}, parsed.sbom):
                    _say(f"{path}")
        except ImageError as exc:
            sys.stderr.write(f"{exc}\n")
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="images.py", description="Builds the images of Citewire's services.")
    parser.add_argument("--engine", choices=ENGINES, help="default: the first one that works here")
    parser.add_argument(
        "--base", default=os.environ.get("CITEWIRE_IMAGE_BASE"), help=f"image to build on, or `{DEBIAN}`"
    )
    parser.add_argument("--tag", default=DEFAULT_TAG, help="with {name} in it (default: %(default)s)")
    parser.add_argument(
        "--only", action="append", choices=(*NAMES, REHEARSAL), help="build only this service; may be repeated"
    )
    parser.add_argument("--commit", help="build the files of this commit instead of the working tree")
    parser.add_argument("--sbom", type=Path, help="folder to copy the bills of materials to")
    return parser


def _docker_answers() -> bool:
    """Whether the client can reach an engine."""
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def _size(engine: str, tag: str) -> str:
    return _output(engine, "images", "--format", "{{.Size}}", tag).splitlines()[0]


def _copy_sbom(engine: str, name: str, tag: str, folder: Path) -> Path:
    inside, target = f"/usr/share/sbom/citewire-{name}.cdx.json", folder / f"citewire-{name}.cdx.json"
    if engine == "buildah":
        container = _output("buildah", "from", "--pull-never", tag)
        try:
            mounted = Path(_output("buildah", "mount", container))
            shutil.copyfile(mounted / inside.lstrip("/"), target)
        finally:
            _output("buildah", "rm", container)
        return target
    container = _output(engine, "create", tag)
    try:
        _output(engine, "cp", f"{container}:{inside}", str(target))
    finally:
        _output(engine, "rm", container)
    return target


def _output(*command: str, may_fail: bool = False) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        raise ImageError(f"{shlex.join(command)} failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
