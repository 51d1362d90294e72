-- Groups that an organisation manages itself. Every query works inside one organisation.

-- name: list_groups
SELECT g.name, g.created_by, g.created_at,
       (SELECT count(*) FROM chat.group_members m WHERE m.org_id = g.org_id AND m.name = g.name) AS users
FROM chat.groups g
WHERE g.org_id = %(org)s AND (%(name)s::text IS NULL OR g.name = %(name)s)
ORDER BY g.name

-- name: take_turn
-- Serialises changes of an organisation's groups.
SELECT pg_advisory_xact_lock(hashtextextended('chat.groups/' || %(org)s, 0))

-- name: has_organisation
SELECT org_id FROM chat.orgs WHERE org_id = %(org)s

-- name: count_groups
SELECT count(*) AS groups FROM chat.groups WHERE org_id = %(org)s

-- name: add_group
INSERT INTO chat.groups (org_id, name, created_by) VALUES (%(org)s, %(name)s, %(by)s) ON CONFLICT DO NOTHING
RETURNING name

-- name: delete_group
DELETE FROM chat.groups WHERE org_id = %(org)s AND name = %(name)s RETURNING name

-- name: list_members
SELECT user_id FROM chat.group_members WHERE org_id = %(org)s AND name = %(name)s ORDER BY user_id

-- name: lock_user
-- An erasure of the user waits for this lock.
SELECT user_id FROM chat.users WHERE org_id = %(org)s AND user_id = %(user)s FOR NO KEY UPDATE

-- name: count_memberships
SELECT count(*) AS groups FROM chat.group_members WHERE org_id = %(org)s AND user_id = %(user)s

-- name: add_member
INSERT INTO chat.group_members (org_id, name, user_id) VALUES (%(org)s, %(name)s, %(user)s) ON CONFLICT DO NOTHING

-- name: remove_member
DELETE FROM chat.group_members WHERE org_id = %(org)s AND name = %(name)s AND user_id = %(user)s RETURNING user_id
