-- Tenant providers. Every query but `sealed_rows` runs under its tenant. The active chain of an owner and type is in
-- chat.providers, and the other saved chains are in chat.saved_providers; the two tables have the same columns.

-- name: load
-- At least one row, because each contains the organisation's rule.
SELECT coalesce((SELECT require_own FROM chat.provider_rules WHERE org_id = %(org)s), false),
       p.user_id, p.type, p.position, p.provider, p.model, p.dimensions, p.sealed_api_base, p.sealed_key, p.test,
       p.updated_at, coalesce(p.has_key, p.sealed_key <> ''), coalesce(p.has_api_base, p.sealed_api_base <> ''), p.name,
       true
FROM (SELECT) one
LEFT JOIN chat.providers p ON p.org_id = %(org)s AND p.user_id IN ('', %(user)s)
ORDER BY p.user_id, p.type, p.position

-- name: load_saved
-- The chains that aren't active.
SELECT false, user_id, type, position, provider, model, dimensions, sealed_api_base, sealed_key, test, updated_at,
       coalesce(has_key, sealed_key <> ''), coalesce(has_api_base, sealed_api_base <> ''), name, false
FROM chat.saved_providers
WHERE org_id = %(org)s AND user_id IN ('', %(user)s)
ORDER BY user_id, type, name, position

-- name: take_turns
-- Serialises changes of an owner's providers of one type.
SELECT pg_advisory_xact_lock(hashtextextended('chat.providers/' || %(org)s || '/' || %(owner)s || '/' || %(type)s, 0))

-- name: active_name
SELECT name FROM chat.providers WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND position = 0

-- name: saved_names
SELECT DISTINCT name FROM chat.saved_providers WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s

-- name: save
INSERT INTO chat.providers
    (org_id, user_id, type, position, provider, model, dimensions, sealed_api_base, sealed_key, has_key, has_api_base,
     test, updated_by, name)
VALUES
    (%(org)s, %(owner)s, %(type)s, %(position)s, %(provider)s, %(model)s, %(dimensions)s, %(sealed_api_base)s,
     %(sealed_key)s, %(has_key)s, %(has_api_base)s, %(test)s, %(user)s, %(name)s)

-- name: save_inactive
INSERT INTO chat.saved_providers
    (org_id, user_id, type, position, provider, model, dimensions, sealed_api_base, sealed_key, has_key, has_api_base,
     test, updated_by, name)
VALUES
    (%(org)s, %(owner)s, %(type)s, %(position)s, %(provider)s, %(model)s, %(dimensions)s, %(sealed_api_base)s,
     %(sealed_key)s, %(has_key)s, %(has_api_base)s, %(test)s, %(user)s, %(name)s)

-- name: deactivate
-- Moves the active chain to the saved ones.
WITH active AS (
    DELETE FROM chat.providers WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s RETURNING *
)
INSERT INTO chat.saved_providers SELECT * FROM active

-- name: activate
WITH waiting AS (
    DELETE FROM chat.saved_providers
    WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND name = %(name)s
    RETURNING *
)
INSERT INTO chat.providers SELECT * FROM waiting

-- name: note_test
-- Stores the result of a test call to an active provider, unless that was saved again meanwhile.
UPDATE chat.providers SET test = %(test)s
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND name = %(name)s AND position = %(position)s
  AND sealed_key = %(sealed_key)s

-- name: note_saved_test
-- The same for a provider that isn't active.
UPDATE chat.saved_providers SET test = %(test)s
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND name = %(name)s AND position = %(position)s
  AND sealed_key = %(sealed_key)s

-- name: delete_active
-- Deletes the active chain; if a name is given, only if the active chain has that name.
DELETE FROM chat.providers
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND (%(name)s::text IS NULL OR name = %(name)s)

-- name: delete_saved
DELETE FROM chat.saved_providers
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND name = %(name)s

-- name: require_own
INSERT INTO chat.provider_rules (org_id, require_own) VALUES (%(org)s, %(require_own)s)
ON CONFLICT (org_id) DO UPDATE SET require_own = excluded.require_own, updated_at = now()

-- name: sealed_rows
SELECT org_id, user_id, type, name, position FROM chat.sealed_rows()

-- name: get
SELECT false, user_id, type, position, provider, model, dimensions, sealed_api_base, sealed_key, test, updated_at, has_key,
       has_api_base, name, true
FROM (SELECT * FROM chat.providers UNION ALL SELECT * FROM chat.saved_providers) saved
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND name = %(name)s AND position = %(position)s

-- name: swap
-- Does nothing if the provider was saved again meanwhile, because it is then sealed under the newest key already. From rows
-- whose key and address were sealed separately, it records whether they had them: the new row's key hides that.
UPDATE chat.providers
SET sealed_api_base = %(new_base)s, sealed_key = %(new_key)s, has_key = coalesce(has_key, sealed_key <> ''),
    has_api_base = coalesce(has_api_base, sealed_api_base <> '')
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND name = %(name)s AND position = %(position)s
  AND sealed_api_base = %(old_base)s AND sealed_key = %(old_key)s

-- name: swap_saved
-- The same for a provider that isn't active.
UPDATE chat.saved_providers
SET sealed_api_base = %(new_base)s, sealed_key = %(new_key)s, has_key = coalesce(has_key, sealed_key <> ''),
    has_api_base = coalesce(has_api_base, sealed_api_base <> '')
WHERE org_id = %(org)s AND user_id = %(owner)s AND type = %(type)s AND name = %(name)s AND position = %(position)s
  AND sealed_api_base = %(old_base)s AND sealed_key = %(old_key)s
