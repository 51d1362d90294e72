-- Operators: who runs the installation, and is a member of no organisation. Their keys are made by the schema's owner alone: the
-- gateway's role can neither make one nor see them, and finds one only by its hash.

CREATE TABLE chat.operator_keys (
    key_id       text COLLATE "C" PRIMARY KEY,
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    key_hash     bytea NOT NULL CHECK (length(key_hash) = 32),    -- SHA-256 of 32 random bytes, as of chat.api_keys
    prefix       text NOT NULL,
    scopes       text[] NOT NULL CHECK (cardinality(scopes) > 0 AND scopes <@ '{read,manage}'),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,                                     -- NULL: never
    revoked_at   timestamptz,
    last_used_at timestamptz
);
CREATE UNIQUE INDEX operator_keys_hash ON chat.operator_keys (key_hash);
ALTER TABLE chat.operator_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE chat.operator_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_keeps_all ON chat.operator_keys TO CURRENT_USER USING (true) WITH CHECK (true);

-- Which operator's key this is, and whether it counts; only to who has the key.
CREATE FUNCTION chat.find_operator(hash bytea)
RETURNS TABLE (key_id text, name text, scopes text[], expires_at timestamptz, state text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.key_id, k.name, k.scopes, k.expires_at,
           CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= now() THEN 'expired' ELSE 'active' END
    FROM chat.operator_keys k WHERE k.key_hash = hash
$$;

CREATE FUNCTION chat.touch_operator_keys(hashes bytea[], times timestamptz[]) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE chat.operator_keys k SET last_used_at = used.at
    FROM unnest(hashes, times) AS used (hash, at)
    WHERE k.key_hash = used.hash AND (k.last_used_at IS NULL OR k.last_used_at < used.at)
$$;

-- An organisation may be suspended: nobody of it may call until it is resumed.
ALTER TABLE chat.orgs ADD COLUMN suspended_at timestamptz;
GRANT UPDATE (suspended_at) ON chat.orgs TO citewire_chat;
CREATE POLICY owner_reads_all ON chat.orgs FOR SELECT TO CURRENT_USER USING (true);

-- Organisations in the order of their ids, after one, whose id holds a text; only to who has an operator's key that works.
CREATE FUNCTION chat.list_organisations(operator_hash bytea, after_org text, part text, most integer)
RETURNS TABLE (org_id text, plan text, created_at timestamptz, users bigint, keys bigint, suspended_at timestamptz,
               audit_days integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT o.org_id,
           coalesce((SELECT p.plan FROM chat.plans p WHERE p.org_id = o.org_id ORDER BY p.since DESC LIMIT 1), 'free'),
           o.created_at,
           (SELECT count(*) FROM chat.users u WHERE u.org_id = o.org_id),
           (SELECT count(*) FROM chat.api_keys k WHERE k.org_id = o.org_id AND k.revoked_at IS NULL),
           o.suspended_at,
           (SELECT a.days FROM chat.audit_policies a WHERE a.org_id = o.org_id)
    FROM chat.orgs o
    WHERE EXISTS (SELECT FROM chat.find_operator(operator_hash) f WHERE f.state = 'active')
      AND o.org_id > after_org AND position(lower(part) IN lower(o.org_id)) > 0
    ORDER BY o.org_id LIMIT most
$$;

-- As chat.find_caller, and whether the organisation is suspended.
CREATE FUNCTION chat.find_key_owner(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], key_id text, scopes text[], expires_at timestamptz,
               state text, groups text[], limited_groups boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.org_id, k.user_id,
           (SELECT p.plan FROM chat.plans p WHERE p.org_id = k.org_id ORDER BY p.since DESC LIMIT 1),
           u.roles, k.key_id, k.scopes, k.expires_at,
           CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
                WHEN k.expires_at <= now() THEN 'expired'
                WHEN k.key_hash <> hash AND k.previous_until <= now() THEN 'rotated'
                WHEN EXISTS (SELECT FROM chat.orgs o WHERE o.org_id = k.org_id AND o.suspended_at IS NOT NULL) THEN 'suspended'
                WHEN u.disabled_at IS NOT NULL THEN 'disabled'
                ELSE 'active' END,
           CASE WHEN k.groups IS NULL THEN chat.own_groups(k.org_id, k.user_id)
                WHEN k.created_by IS NULL THEN k.groups
                ELSE ARRAY(SELECT g.name FROM unnest(k.groups) AS g (name), chat.users m
                           WHERE m.org_id = k.org_id AND m.user_id = k.created_by AND m.disabled_at IS NULL
                             AND (g.name = ANY (m.provider_groups)
                                  OR EXISTS (SELECT FROM chat.group_members o
                                             WHERE o.org_id = m.org_id AND o.user_id = m.user_id AND o.name = g.name))
                           ORDER BY g.name) END,
           k.groups IS NOT NULL
    FROM chat.api_keys k JOIN chat.users u ON u.org_id = k.org_id AND u.user_id = k.user_id
    WHERE k.key_hash = hash OR k.previous_hash = hash
$$;

-- For the version before, to which everybody of a suspended organisation is disabled.
CREATE OR REPLACE FUNCTION chat.find_caller(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], key_id text, scopes text[], expires_at timestamptz,
               state text, groups text[], limited_groups boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT o.org_id, o.user_id, o.plan, o.roles, o.key_id, o.scopes, o.expires_at,
           CASE o.state WHEN 'suspended' THEN 'disabled' ELSE o.state END, o.groups, o.limited_groups
    FROM chat.find_key_owner(hash) o
$$;

-- Sessions of a suspended organisation are none, as those of a disabled user: a sign-in then says why.
CREATE OR REPLACE FUNCTION chat.find_cookie(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], groups text[], session_id text, issuer text,
               sealed_tokens bytea, fresh_seconds double precision, expires_at timestamptz, state text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.org_id, s.user_id,
           (SELECT p.plan FROM chat.plans p WHERE p.org_id = s.org_id ORDER BY p.since DESC LIMIT 1),
           u.roles,
           s.groups || ARRAY(SELECT o.name FROM unnest(chat.own_groups(s.org_id, s.user_id)) AS o (name)
                             WHERE o.name <> ALL (s.groups)),
           s.session_id, s.issuer, s.sealed_tokens, extract(epoch FROM s.fresh_until - now())::float8, s.expires_at,
           CASE WHEN s.id_hash <> hash AND s.previous_until <= now() THEN 'outdated'
                WHEN s.id_hash <> hash THEN 'previous'
                WHEN s.previous_hash IS NOT NULL AND s.previous_until IS NULL THEN 'new'
                ELSE 'current' END
    FROM chat.sessions s JOIN chat.users u ON u.org_id = s.org_id AND u.user_id = s.user_id
    WHERE (s.id_hash = hash OR s.previous_hash = hash) AND s.expires_at > now() AND u.disabled_at IS NULL
      AND NOT EXISTS (SELECT FROM chat.orgs o WHERE o.org_id = s.org_id AND o.suspended_at IS NOT NULL)
$$;

REVOKE ALL ON FUNCTION chat.find_operator(bytea), chat.touch_operator_keys(bytea[], timestamptz[]),
    chat.list_organisations(bytea, text, text, integer), chat.find_key_owner(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.find_operator(bytea), chat.touch_operator_keys(bytea[], timestamptz[]),
    chat.list_organisations(bytea, text, text, integer), chat.find_key_owner(bytea) TO citewire_chat;
