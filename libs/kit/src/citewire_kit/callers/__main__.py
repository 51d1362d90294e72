"""Creates and replaces callers' keys, and signs tokens manually: `python -m citewire_kit.callers --help`."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from citewire_kit.callers.issuers import ANY, Issuers
from citewire_kit.callers.signer import SigningKey, sign, to_jwk
from citewire_kit.callers.token import LIFETIME_SECONDS, audience_of, to_claims
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant

ISSUERS_FILE: Final = "issuers.json"


_METHODS: Final[Mapping[str, Sequence[str]]] = {
    "worker": (
        "citewire.embedder.v1.EmbedderService/CountTokens",
        "citewire.embedder.v1.EmbedderService/EmbedStream",
        "citewire.generator.v1.GeneratorService/Enrich",
    )
}
"""The services that a process calls, if these aren't all."""


def make_keys(folder: Path, names: Mapping[str, Sequence[str]], *, readable: bool = False) -> None:
    """Creates `NAME.pem` and an entry in `issuers.json` for each name without them; changes nothing else.

    Args:
        folder: Where the files are created.
        names: Owners of the keys, with the organisations that each may call for; none means all.
        readable: Make the files readable by every user, for folders that are protected otherwise.

    Raises:
        OSError: A file can't be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    issuers = _read(folder)
    for name, organisations in names.items():
        if not (folder / f"{name}.pem").exists():
            issuers[f"citewire-{name}"] = {
                "keys": [_new_key(folder / f"{name}.pem")],
                "organisations": list(organisations) or [ANY],
                "methods": list(_METHODS.get(name, [ANY])),
                "certificates": [name],
            }
    _write(folder / ISSUERS_FILE, json.dumps({"issuers": issuers}, indent=2) + "\n")
    if readable:
        for path in (folder, *folder.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)


def rotate_key(folder: Path, name: str, *, known_seconds: float, last_seconds: float) -> None:
    """Replaces a key without downtime: all services know the new key before it is used.

    Args:
        folder: Where `make_keys` made it.
        name: The key's owner.
        known_seconds: Wait until every service has read the file of issuers.
        last_seconds: Wait until the last token of the old key has expired.

    Raises:
        OSError: A file can't be read or written.
    """
    issuers, private = _read(folder), folder / f"{name}.pem"
    entry, following = issuers[f"citewire-{name}"], folder / f"{name}.next.pem"
    new = _new_key(following)
    entry["keys"] = [*entry["keys"], new]
    _write(folder / ISSUERS_FILE, json.dumps({"issuers": issuers}, indent=2) + "\n")
    time.sleep(known_seconds)
    following.replace(private)
    time.sleep(last_seconds)
    entry["keys"] = [new]
    _write(folder / ISSUERS_FILE, json.dumps({"issuers": issuers}, indent=2) + "\n")


def _new_key(path: Path) -> dict[str, Any]:
    key = Ed25519PrivateKey.generate()
    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    return to_jwk(key.public_key())


def _read(folder: Path) -> dict[str, Any]:
    path = folder / ISSUERS_FILE
    return dict(json.loads(path.read_bytes())["issuers"]) if path.exists() else {}


def _write(path: Path, text: str) -> None:
    # Created complete and private: nobody can read half a file, and no other user can read it at all.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(temporary).replace(path)


def _token(options: argparse.Namespace) -> str:
    now = int(time.time())
    tenant = Tenant(options.org, options.user, options.plan, tuple(options.role), "", tuple(options.group))
    times = {"iat": now, "exp": now + LIFETIME_SECONDS}
    claims = {"iss": options.issuer, "aud": audience_of(options.service), **times, **to_claims(tenant)}
    return sign(SigningKey.from_pem(options.key.read_bytes()), claims)


def _whose(text: str) -> tuple[str, list[str]]:
    """Reads `NAME`, or `NAME=ORGANISATION,…`."""
    name, _, organisations = text.partition("=")
    return name, [organisation for organisation in organisations.split(",") if organisation]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m citewire_kit.callers", description="Keys and tokens of callers.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="create missing keys, and issuers.json beside them")
    make.add_argument("folder", type=Path)
    make.add_argument("--readable", action="store_true", help="readable by every user, if the folder is protected")
    make.add_argument("names", nargs="+", type=_whose, help="whose keys: gateway, worker, service=acme,globex")
    rotate = commands.add_parser("rotate", help="replace a key without downtime; takes 90 seconds")
    rotate.add_argument("folder", type=Path)
    rotate.add_argument("name")
    rotate.add_argument("--known-seconds", type=float, default=30.0, help="until all have read the new issuers.json")
    rotate.add_argument("--last-seconds", type=float, default=60.0, help="until the old key's last token has expired")
    check = commands.add_parser("check", help="validate a file of issuers as a service would")
    check.add_argument("file", type=Path)
    check.add_argument("--tls", action="store_true", help="as a service with TLS would")
    token = commands.add_parser("token", help="print a token for manual calls; it is valid for 25 s")
    token.add_argument("service", choices=["embedder", "retriever", "generator"])
    token.add_argument("--key", type=Path, required=True, help="file with the private key")
    token.add_argument("--issuer", required=True)
    token.add_argument("--org", required=True)
    token.add_argument("--user", required=True)
    token.add_argument("--plan", default="pro")
    token.add_argument("--role", action="append", default=[])
    token.add_argument("--group", action="append", default=[])
    return parser


def main() -> int:
    """Runs the given command; returns 1 if it fails."""
    options = _parser().parse_args()
    try:
        match options.command:
            case "make":
                make_keys(options.folder, dict(options.names), readable=options.readable)
            case "rotate":
                seconds = {"known_seconds": options.known_seconds, "last_seconds": options.last_seconds}
                rotate_key(options.folder, options.name, **seconds)
            case "check":
                Issuers.read(options.file, tls=options.tls)
            case _:
                sys.stdout.write(f"{_token(options)}\n")
    except (OSError, ValueError, KeyError, CitewireError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
