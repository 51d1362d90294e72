"""Signed callers: each call between processes carries a short-lived token, and each service verifies it.

The token is a JWS (RFC 7515) over the claims of `token.py`, in one metadata entry. `signer.py` makes it for a channel,
`verifier.py` checks it on a server, `issuers.py` reads whose tokens a server believes, and `python -m
citewire_kit.callers` makes keys and tokens. See docs/adr/0023-signed-callers.md.
"""
