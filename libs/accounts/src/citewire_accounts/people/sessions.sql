-- Browser sessions and the people who sign in. `find_session` and `sweep_sessions` run without a tenant.

-- name: find_session
SELECT org_id, user_id, plan, roles, groups, session_id, issuer, sealed_tokens, fresh_seconds, expires_at, state
FROM chat.find_cookie(%(hash)s)

-- name: add_org
INSERT INTO chat.orgs (org_id) VALUES (%(org)s) ON CONFLICT DO NOTHING

-- name: put_plan
-- Sets the plan if the organisation has none, or if the identity provider names another one.
WITH present AS (SELECT plan FROM chat.plans WHERE org_id = %(org)s ORDER BY since DESC LIMIT 1)
INSERT INTO chat.plans (org_id, plan)
SELECT %(org)s, coalesce(%(plan)s::text, %(default_plan)s)
WHERE NOT EXISTS (SELECT FROM present) OR EXISTS (SELECT FROM present WHERE plan <> %(plan)s::text)

-- name: put_user
-- Roles are those that the identity provider names; if it names none, they stay as the organisation has set them.
INSERT INTO chat.users (org_id, user_id, roles, provider_groups)
VALUES (%(org)s, %(user)s, coalesce(%(roles)s::text[], %(default_roles)s), %(groups)s)
ON CONFLICT (org_id, user_id)
DO UPDATE SET roles = coalesce(%(roles)s::text[], chat.users.roles), provider_groups = excluded.provider_groups
RETURNING roles, (SELECT plan FROM chat.plans WHERE org_id = %(org)s ORDER BY since DESC LIMIT 1),
          disabled_at IS NOT NULL, (SELECT suspended_at IS NOT NULL FROM chat.orgs WHERE org_id = %(org)s), chat.own_groups(org_id, user_id)

-- name: add_session
INSERT INTO chat.sessions (org_id, session_id, user_id, id_hash, issuer, groups, sealed_tokens, fresh_until, expires_at)
VALUES (%(org)s, %(session)s, %(user)s, %(hash)s, %(issuer)s, %(groups)s, %(tokens)s,
        now() + %(fresh)s, now() + %(lifetime)s)
RETURNING expires_at

-- name: lease_session
-- Whoever gets the lease asks the identity provider; a lease expires by itself if its holder dies.
UPDATE chat.sessions SET refreshing_until = now() + %(lease)s
WHERE org_id = %(org)s AND session_id = %(session)s AND (refreshing_until IS NULL OR refreshing_until < now())
RETURNING sealed_tokens, extract(epoch FROM fresh_until - now())::float8

-- name: renew_session
UPDATE chat.sessions
SET groups = %(groups)s, sealed_tokens = %(tokens)s, fresh_until = now() + %(fresh)s, refreshing_until = NULL
WHERE org_id = %(org)s AND session_id = %(session)s

-- name: replace_cookie
-- Does nothing for the previous cookie, whose holder is about to receive the current one, unless that must have been lost.
UPDATE chat.sessions SET id_hash = %(new_hash)s, previous_hash = %(hash)s, previous_until = NULL, replaced_at = now()
WHERE org_id = %(org)s AND session_id = %(session)s
  AND (id_hash = %(hash)s
       OR (previous_hash = %(hash)s AND previous_until IS NULL AND replaced_at < now() - %(lost_after)s::interval))
RETURNING session_id

-- name: begin_overlap
-- When the new cookie is seen for the first time, the previous one's remaining time begins.
UPDATE chat.sessions SET previous_until = now() + %(overlap)s
WHERE org_id = %(org)s AND session_id = %(session)s AND id_hash = %(hash)s AND previous_until IS NULL

-- name: release_session
UPDATE chat.sessions SET refreshing_until = NULL WHERE org_id = %(org)s AND session_id = %(session)s

-- name: delete_session
DELETE FROM chat.sessions WHERE org_id = %(org)s AND session_id = %(session)s

-- name: sweep_sessions
SELECT chat.sweep_sessions(%(most)s)
