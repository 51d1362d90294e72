-- Tenants' profiles. Every query runs under its tenant.

-- name: take_turns
-- Versions of a profile that are saved at the same time are written one after another.
SELECT pg_advisory_xact_lock(hashtextextended('chat.profiles/' || %(org)s || '/' || %(name)s, 0))

-- name: put
-- Adds a version.
INSERT INTO chat.profiles (org_id, name, version, base, description, changes, created_by)
SELECT %(org)s, %(name)s, coalesce(max(version), 0) + 1, %(base)s, %(description)s, %(changes)s, %(user)s
FROM chat.profiles WHERE org_id = %(org)s AND name = %(name)s
RETURNING name, version, base, description, changes, created_at, deleted

-- name: get
-- The latest version, or the given one.
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
-- Adds a version that marks the profile as deleted. Earlier versions stay, because chats refer to them.
INSERT INTO chat.profiles (org_id, name, version, base, description, changes, created_by, deleted)
SELECT %(org)s, name, version + 1, base, description, changes, %(user)s, true
FROM (SELECT * FROM chat.profiles WHERE org_id = %(org)s AND name = %(name)s ORDER BY version DESC LIMIT 1) AS last
WHERE NOT last.deleted
RETURNING version
