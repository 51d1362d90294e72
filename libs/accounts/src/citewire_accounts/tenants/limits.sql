-- Limits of an organisation, its users and its keys that replace those of the plan.

-- name: limits_of
-- The limits that apply to a call: those of the organisation, the user and the key.
SELECT measure, scope, most FROM chat.limits
WHERE org_id = %(org)s AND (scope = 'org' OR (scope = 'user' AND subject = %(user)s) OR (scope = 'key' AND subject = %(key)s))

-- name: list_limits
SELECT scope, subject, measure, most, updated_by, updated_at FROM chat.limits
WHERE org_id = %(org)s
  AND (%(scope)s::text IS NULL OR (scope = %(scope)s AND subject = %(subject)s AND measure = %(measure)s))
ORDER BY scope, subject, measure

-- name: owner_of_key
SELECT user_id FROM chat.api_keys WHERE org_id = %(org)s AND key_id = %(subject)s

-- name: has_user
SELECT user_id FROM chat.users WHERE org_id = %(org)s AND user_id = %(subject)s

-- name: has_organisation
SELECT org_id FROM chat.orgs WHERE org_id = %(org)s

-- name: put_limit
INSERT INTO chat.limits (org_id, scope, subject, measure, most, updated_by)
VALUES (%(org)s, %(scope)s, %(subject)s, %(measure)s, %(most)s, %(by)s)
ON CONFLICT (org_id, scope, subject, measure)
DO UPDATE SET most = excluded.most, updated_by = excluded.updated_by, updated_at = now()

-- name: delete_limit
DELETE FROM chat.limits
WHERE org_id = %(org)s AND scope = %(scope)s AND subject = %(subject)s AND measure = %(measure)s
RETURNING measure
