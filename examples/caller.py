"""How your own service calls Citewire on behalf of a user: copy this. Needs PyJWT and cryptography.

`make up` creates the key; `python -m examples.caller embedder` prints a token for a manual call.
"""

import base64
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import jwt
from jwt.algorithms import OKPAlgorithm

FOLDER = Path(os.environ.get("CITEWIRE_DATA_DIR", ".citewire")) / "callers"
KEY = OKPAlgorithm().prepare_key((FOLDER / "service.pem").read_bytes())
ISSUER = "citewire-service"  # its entry in issuers.json determines its rights


def caller(service: str, org: str = "local", user: str = "local", plan: str = "pro") -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a call to `embedder`, `retriever` or `generator`; it is valid for 25 seconds."""
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": f"citewire-{service}", "iat": now, "exp": now + 25}
    claims |= {"org": org, "sub": user, "plan": plan, "roles": ["editor"], "groups": []}
    header = {"typ": "cw-caller+jwt", "kid": _thumbprint()}
    return (("cw-caller", jwt.encode(claims, KEY, algorithm="EdDSA", headers=header)),)


def _thumbprint() -> str:
    """The key's id: RFC 7638."""
    public = OKPAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    canonical = json.dumps({name: public[name] for name in ("crv", "kty", "x")}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    sys.stdout.write(caller(sys.argv[1])[0][1])
