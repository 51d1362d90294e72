-- Tenants' own providers. Every query but `sealed_providers` runs under its tenant.

-- name: load
-- One row at least: the rule stands in each.
SELECT coalesce((SELECT require_own FROM chat.provider_rules WHERE org_id = %(org)s), false),
       p.user_id, p.type, p.position, p.provider, p.model, p.dimensions, p.sealed_api_base, p.sealed_key, p.test,
       p.updated_at, coalesce(p.has_key, p.sealed_key <> ''), coalesce(p.has_api_base, p.sealed_api_base <> '')
FROM (SELECT) one
LEFT JOIN chat.providers p ON p.org_id = %(org)s AND p.user_id IN ('', %(user)s)
ORDER BY p.user_id, p.type, p.position

-- name: save
INSERT INTO chat.providers
    (org_id, user_id, type, position, provider, model, dimensions, sealed_api_base, sealed_key, has_key, has_api_base,
     test, updated_by)
VALUES
    (%(org)s, %(owner)s, %(type)s, %(position)s, %(provider)s, %(model)s, %(dimensions)s, %(sealed_api_base)s,
     %(sealed_key)s, %(has_key)s, %(has_api_base)s, %(test)s, %(user)s)
ON CONFLICT (org_id, user_id, type, position) DO UPDATE
    SET provider = excluded.provider, model = excluded.model, dimensions = excluded.dimensions,
        sealed_api_base = excluded.sealed_api_base, sealed_key = excluded.sealed_key,
        has_key = excluded.has_key, has_api_base = excluded.has_api_base, test = excluded.test, updated_by = excluded.updated_by,
        updated_at = now()

-- name: cut
-- What is left of a longer chain; with position 0, the whole of it.
DELETE FROM chat.providers
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND position >= %(position)s

-- name: require_own
INSERT INTO chat.provider_rules (org_id, require_own) VALUES (%(org)s, %(require_own)s)
ON CONFLICT (org_id) DO UPDATE SET require_own = excluded.require_own, updated_at = now()

-- name: sealed_providers
SELECT org_id, user_id, type, position FROM chat.sealed_providers()

-- name: get
SELECT false, user_id, type, position, provider, model, dimensions, sealed_api_base, sealed_key, test, updated_at, has_key,
       has_api_base
FROM chat.providers
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND position = %(position)s

-- name: swap
-- Nothing if it was saved anew meanwhile: then it is sealed under the newest key already. What was sealed apart shows by
-- itself what there was, until now.
UPDATE chat.providers
SET sealed_api_base = %(new_base)s, sealed_key = %(new_key)s, has_key = coalesce(has_key, sealed_key <> ''),
    has_api_base = coalesce(has_api_base, sealed_api_base <> '')
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND position = %(position)s
  AND sealed_api_base = %(old_base)s AND sealed_key = %(old_key)s
