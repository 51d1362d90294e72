-- Organisations and users. All but `list_organisations` work inside one organisation.

-- name: list_organisations
SELECT o.org_id, coalesce((SELECT p.plan FROM chat.plans p WHERE p.org_id = o.org_id ORDER BY since DESC LIMIT 1), 'free') AS plan,
       o.created_at, (SELECT count(*) FROM chat.users u WHERE u.org_id = o.org_id) AS users,
       (SELECT count(*) FROM chat.api_keys k WHERE k.org_id = o.org_id AND k.revoked_at IS NULL) AS keys,
       o.suspended_at, (SELECT a.days FROM chat.audit_policies a WHERE a.org_id = o.org_id) AS audit_days
FROM chat.orgs o
ORDER BY o.org_id

-- name: get_organisation
SELECT o.org_id, coalesce((SELECT p.plan FROM chat.plans p WHERE p.org_id = o.org_id ORDER BY since DESC LIMIT 1), 'free') AS plan,
       o.created_at, (SELECT count(*) FROM chat.users u WHERE u.org_id = o.org_id) AS users,
       (SELECT count(*) FROM chat.api_keys k WHERE k.org_id = o.org_id AND k.revoked_at IS NULL) AS keys,
       o.suspended_at, (SELECT a.days FROM chat.audit_policies a WHERE a.org_id = o.org_id) AS audit_days
FROM chat.orgs o
WHERE o.org_id = %(org)s

-- name: is_being_erased
SELECT erasure_id FROM chat.erasures WHERE org_id = %(org)s AND subject_kind = 'organisation'

-- name: add_organisation
INSERT INTO chat.orgs (org_id) VALUES (%(org)s) ON CONFLICT DO NOTHING RETURNING org_id

-- name: set_suspended
-- Repeating it keeps the first time.
UPDATE chat.orgs SET suspended_at = CASE WHEN %(suspended)s THEN coalesce(suspended_at, now()) END
WHERE org_id = %(org)s

-- name: add_plan
INSERT INTO chat.plans (org_id, plan) VALUES (%(org)s, %(plan)s)

-- name: list_members
SELECT u.user_id, u.roles, u.created_at, u.disabled_at,
       (SELECT count(*) FROM chat.api_keys k
        WHERE k.org_id = u.org_id AND k.user_id = u.user_id AND k.revoked_at IS NULL) AS keys
FROM chat.users u
WHERE u.org_id = %(org)s
ORDER BY u.user_id

-- name: get_member
SELECT u.user_id, u.roles, u.created_at, u.disabled_at,
       (SELECT count(*) FROM chat.api_keys k
        WHERE k.org_id = u.org_id AND k.user_id = u.user_id AND k.revoked_at IS NULL) AS keys
FROM chat.users u
WHERE u.org_id = %(org)s AND u.user_id = %(user)s

-- name: add_member
INSERT INTO chat.users (org_id, user_id, roles) VALUES (%(org)s, %(user)s, %(roles)s) ON CONFLICT DO NOTHING
RETURNING user_id

-- name: groups_of
-- A user's groups: those of the organisation, and those of the identity provider.
SELECT chat.own_groups(org_id, user_id) AS groups, provider_groups
FROM chat.users WHERE org_id = %(org)s AND user_id = %(user)s

-- name: lock_owners
-- Locks the owners who aren't disabled.
SELECT user_id FROM chat.users
WHERE org_id = %(org)s AND 'owner' = ANY (roles) AND disabled_at IS NULL ORDER BY user_id FOR UPDATE

-- name: set_disabled
-- Repeating it keeps the first time.
UPDATE chat.users SET disabled_at = CASE WHEN %(disabled)s THEN coalesce(disabled_at, now()) END
WHERE org_id = %(org)s AND user_id = %(user)s

-- name: end_sessions
DELETE FROM chat.sessions WHERE org_id = %(org)s AND user_id = %(user)s

-- name: set_roles
UPDATE chat.users SET roles = %(roles)s WHERE org_id = %(org)s AND user_id = %(user)s

-- name: set_audit_days
INSERT INTO chat.audit_policies (org_id, days) VALUES (%(org)s, %(days)s)
ON CONFLICT (org_id) DO UPDATE SET days = excluded.days
