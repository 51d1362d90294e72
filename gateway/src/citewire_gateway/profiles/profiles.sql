-- Tenants' profiles. Every query runs under its tenant.

-- name: take_turns
-- Versions that come together are written one after another.
SELECT pg_advisory_xact_lock(hashtextextended('chat.profiles/' || %(org)s || '/' || %(name)s, 0))

-- name: put
-- A further version.
INSERT INTO chat.profiles (org_id, name, version, base, description, changes, created_by)
SELECT %(org)s, %(name)s, coalesce(max(version), 0) + 1, %(base)s, %(description)s, %(changes)s, %(user)s
FROM chat.profiles WHERE org_id = %(org)s AND name = %(name)s
RETURNING name, version, base, description, changes, created_at, deleted

-- name: get
-- The latest version, or the one that is named.
SELECT name, version, base, description, changes, created_at, deleted
FROM chat.profiles
WHERE org_id = %(org)s AND name = %(name)s AND (%(version)s::integer IS NULL OR version = %(version)s)
ORDER BY version DESC
LIMIT 1

-- name: list
SELECT DISTINCT ON (name) name, version, base, description, changes, created_at, deleted
FROM chat.profiles
WHERE org_id = %(org)s
ORDER BY name, version DESC

-- name: delete
-- A version that says that it is gone: earlier ones stay, as chats name them.
INSERT INTO chat.profiles (org_id, name, version, base, description, changes, created_by, deleted)
SELECT %(org)s, name, version + 1, base, description, changes, %(user)s, true
FROM (SELECT * FROM chat.profiles WHERE org_id = %(org)s AND name = %(name)s ORDER BY version DESC LIMIT 1) AS last
WHERE NOT last.deleted
RETURNING version
