-- API keys may be limited to some scopes, expire, and be rotated: a rotated key has a new text under its old id, so that
-- budgets and usage go on, and its text before works until previous_until.
ALTER TABLE chat.api_keys
    -- What the version before makes may do everything, as it always could.
    ADD COLUMN scopes text[] NOT NULL DEFAULT '{read,chat,write,admin}'
        CHECK (cardinality(scopes) > 0 AND scopes <@ '{read,chat,write,admin}'),
    ADD COLUMN expires_at timestamptz,                    -- NULL: never
    ADD COLUMN previous_hash bytea CHECK (length(previous_hash) = 32),
    ADD COLUMN previous_until timestamptz,
    ADD CHECK ((previous_hash IS NULL) = (previous_until IS NULL));
CREATE UNIQUE INDEX api_keys_previous_hash ON chat.api_keys (previous_hash) WHERE previous_hash IS NOT NULL;

GRANT UPDATE (key_hash, prefix, previous_hash, previous_until, expires_at) ON chat.api_keys TO citewire_chat;

-- Who a key belongs to, and whether it counts: by the database's clock, which all gateways share. It answers nothing
-- else, and only to who has the key.
CREATE FUNCTION chat.find_key(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], key_id text, scopes text[], expires_at timestamptz,
               state text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.org_id, k.user_id,
           (SELECT p.plan FROM chat.plans p WHERE p.org_id = k.org_id ORDER BY p.since DESC LIMIT 1),
           u.roles, k.key_id, k.scopes, k.expires_at,
           CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
                WHEN k.expires_at <= now() THEN 'expired'
                WHEN k.key_hash <> hash AND k.previous_until <= now() THEN 'rotated'
                ELSE 'active' END
    FROM chat.api_keys k JOIN chat.users u ON u.org_id = k.org_id AND u.user_id = k.user_id
    WHERE k.key_hash = hash OR k.previous_hash = hash
$$;

-- For the version before, which knows no scopes: what it can't tell from a whole key is revoked to it.
CREATE OR REPLACE FUNCTION chat.authenticate(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], revoked boolean, key_id text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.org_id, k.user_id, k.plan, k.roles,
           k.state <> 'active' OR NOT k.scopes @> '{read,chat,write,admin}', k.key_id
    FROM chat.find_key(hash) k
$$;

CREATE OR REPLACE FUNCTION chat.touch_api_keys(hashes bytea[], times timestamptz[]) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE chat.api_keys k SET last_used_at = used.at
    FROM unnest(hashes, times) AS used (hash, at)
    WHERE (k.key_hash = used.hash OR k.previous_hash = used.hash)
      AND (k.last_used_at IS NULL OR k.last_used_at < used.at)
$$;

REVOKE ALL ON FUNCTION chat.find_key(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.find_key(bytea) TO citewire_chat;
