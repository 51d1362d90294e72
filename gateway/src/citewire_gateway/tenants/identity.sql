-- Organisations, users and API keys. Everything but `authenticate` and `touch` works inside one organisation.

-- name: authenticate
-- Who a key belongs to, before the tenant is known.
SELECT org_id, user_id, plan, roles, revoked, key_id FROM chat.authenticate(%(hash)s)

-- name: touch
SELECT chat.touch_api_keys(%(hashes)s::bytea[], %(times)s::timestamptz[])

-- name: add_org
INSERT INTO chat.orgs (org_id) VALUES (%(org)s) ON CONFLICT DO NOTHING

-- name: current_plan
SELECT plan FROM chat.plans WHERE org_id = %(org)s ORDER BY since DESC LIMIT 1

-- name: add_plan
INSERT INTO chat.plans (org_id, plan) VALUES (%(org)s, %(plan)s)

-- name: add_user
-- The first user of an organisation owns it.
INSERT INTO chat.users (org_id, user_id, roles)
SELECT %(org)s, %(user)s,
       CASE WHEN EXISTS (SELECT FROM chat.users WHERE org_id = %(org)s) THEN '{member}'::text[] ELSE '{owner}' END
ON CONFLICT DO NOTHING

-- name: add_key
INSERT INTO chat.api_keys (org_id, key_id, user_id, name, key_hash, prefix)
VALUES (%(org)s, %(key_id)s, %(user)s, %(name)s, %(hash)s, %(prefix)s)
RETURNING created_at

-- name: list_keys
-- Of one organisation; of all, for the schema's owner only.
SELECT org_id, key_id, user_id, name, prefix, created_at, revoked_at, last_used_at
FROM chat.api_keys
WHERE (%(org)s::text IS NULL OR org_id = %(org)s)
ORDER BY org_id, created_at, key_id

-- name: find_keys
-- Keys that a person may mean: by id, or by the characters that `keys list` shows.
SELECT org_id, key_id
FROM chat.api_keys
WHERE (%(org)s::text IS NULL OR org_id = %(org)s) AND (key_id = %(wanted)s OR prefix = %(wanted)s)

-- name: revoke_key
-- A second revocation keeps the first one's time.
UPDATE chat.api_keys SET revoked_at = coalesce(revoked_at, now())
WHERE org_id = %(org)s AND key_id = %(key_id)s
RETURNING org_id, key_id, user_id, name, prefix, created_at, revoked_at, last_used_at
