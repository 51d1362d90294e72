-- Organisations, users and API keys. Everything but `find_key` and `touch` works inside one organisation.

-- name: find_key
-- The owner of a key, before the tenant is known.
SELECT org_id, user_id, plan, roles, key_id, scopes, expires_at, state, groups, limited_groups
FROM chat.find_key_owner(%(hash)s)

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

-- name: user_roles
SELECT roles FROM chat.users WHERE org_id = %(org)s AND user_id = %(user)s

-- name: count_keys
-- Number of a user's valid keys.
SELECT count(*) FROM chat.api_keys
WHERE org_id = %(org)s AND user_id = %(user)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())

-- name: add_key
-- A key created with a key of limited groups gets that key's creator, so that it can't reach further than that user's groups.
INSERT INTO chat.api_keys (org_id, key_id, user_id, name, key_hash, prefix, scopes, expires_at, groups, created_by)
VALUES (%(org)s, %(key_id)s, %(user)s, %(name)s, %(hash)s, %(prefix)s, %(scopes)s, %(expires_at)s, %(groups)s,
        CASE WHEN EXISTS (SELECT FROM chat.api_keys WHERE org_id = %(org)s AND key_id = %(with_key)s AND groups IS NOT NULL)
             THEN (SELECT created_by FROM chat.api_keys WHERE org_id = %(org)s AND key_id = %(with_key)s)
             ELSE %(maker)s::text END)
RETURNING org_id, key_id, user_id, name, prefix, created_at, revoked_at, last_used_at, scopes, expires_at, previous_until, groups

-- name: list_keys
-- Keys of one organisation or one of its users; keys of all organisations for the schema's owner only.
SELECT org_id, key_id, user_id, name, prefix, created_at, revoked_at, last_used_at, scopes, expires_at, previous_until, groups
FROM chat.api_keys
WHERE (%(org)s::text IS NULL OR org_id = %(org)s) AND (%(user)s::text IS NULL OR user_id = %(user)s)
ORDER BY org_id, created_at, key_id

-- name: find_keys
-- Keys with this id, or with this prefix, which `keys list` shows.
SELECT org_id, key_id, user_id, name, prefix, created_at, revoked_at, last_used_at, scopes, expires_at, previous_until, groups
FROM chat.api_keys
WHERE (%(org)s::text IS NULL OR org_id = %(org)s) AND (%(user)s::text IS NULL OR user_id = %(user)s)
  AND (key_id = %(named)s OR prefix = %(named)s)

-- name: revoke_key
-- A second revocation keeps the time of the first.
UPDATE chat.api_keys SET revoked_at = coalesce(revoked_at, now())
WHERE org_id = %(org)s AND key_id = %(key_id)s
RETURNING org_id, key_id, user_id, name, prefix, created_at, revoked_at, last_used_at, scopes, expires_at, previous_until, groups

-- name: rotate_key
-- The previous key stays valid until the overlap ends, but not beyond its own expiry.
UPDATE chat.api_keys
SET key_hash = %(hash)s, prefix = %(prefix)s, previous_hash = key_hash,
    previous_until = least(now() + %(overlap)s, expires_at), expires_at = coalesce(%(expires_at)s, expires_at)
WHERE org_id = %(org)s AND key_id = %(key_id)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
RETURNING org_id, key_id, user_id, name, prefix, created_at, revoked_at, last_used_at, scopes, expires_at, previous_until, groups
