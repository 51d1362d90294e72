-- Operators' keys, and what only an operator sees. Only the schema's owner creates, lists and revokes keys.

-- name: find_operator
SELECT key_id, name, scopes, expires_at, state FROM chat.find_operator(%(hash)s)

-- name: touch_operator_keys
SELECT chat.touch_operator_keys(%(hashes)s::bytea[], %(times)s::timestamptz[])

-- name: organisations_for_operator
SELECT org_id, plan, created_at, users, keys, suspended_at, audit_days
FROM chat.list_organisations(%(hash)s, %(after)s, %(part)s, %(most)s)

-- name: add_operator_key
INSERT INTO chat.operator_keys (key_id, name, key_hash, prefix, scopes, expires_at)
VALUES (%(key_id)s, %(name)s, %(hash)s, %(prefix)s, %(scopes)s, %(expires_at)s)
RETURNING key_id, name, prefix, scopes, created_at, expires_at, revoked_at, last_used_at

-- name: list_operator_keys
SELECT key_id, name, prefix, scopes, created_at, expires_at, revoked_at, last_used_at
FROM chat.operator_keys ORDER BY created_at, key_id

-- name: revoke_operator_key
-- By id or prefix. A second revocation keeps the time of the first.
UPDATE chat.operator_keys SET revoked_at = coalesce(revoked_at, now())
WHERE key_id = %(named)s OR prefix = %(named)s
RETURNING key_id, name, prefix, scopes, created_at, expires_at, revoked_at, last_used_at
