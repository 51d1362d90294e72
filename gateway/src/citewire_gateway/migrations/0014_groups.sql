-- Users who may not act, groups that an organisation keeps itself, and groups of API keys.

ALTER TABLE chat.users
    ADD COLUMN disabled_at timestamptz,                   -- NULL: may act
    -- As the identity provider named them when it was last asked; empty for who never signed in.
    ADD COLUMN provider_groups text[] NOT NULL DEFAULT '{}' CHECK (cardinality(provider_groups) <= 200);
GRANT UPDATE (disabled_at, provider_groups) ON chat.users TO citewire_chat;

CREATE TABLE chat.groups (
    org_id     text COLLATE "C" NOT NULL REFERENCES chat.orgs ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    created_by text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name)
);

CREATE TABLE chat.group_members (
    org_id     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,                 -- the group's
    user_id    text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name, user_id),
    FOREIGN KEY (org_id, name) REFERENCES chat.groups ON DELETE CASCADE,
    FOREIGN KEY (org_id, user_id) REFERENCES chat.users ON DELETE CASCADE
);
CREATE INDEX group_members_of_user ON chat.group_members (org_id, user_id);

SELECT chat.protect(name) FROM unnest(ARRAY['groups', 'group_members']) AS name;
GRANT SELECT, INSERT, DELETE ON chat.groups, chat.group_members TO citewire_chat;
CREATE POLICY owner_reads_all ON chat.group_members FOR SELECT TO CURRENT_USER USING (true);

ALTER TABLE chat.api_keys
    -- NULL: those of the organisation's own that its user is in.
    ADD COLUMN groups text[] CHECK (cardinality(groups) <= 200),
    -- Who made it, or the key that it was made with: it never has a group that this user hasn't. NULL: the operator.
    ADD COLUMN created_by text COLLATE "C";

-- A user's groups of the organisation's own.
CREATE FUNCTION chat.own_groups(org text, of_user text) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(m.name ORDER BY m.name), '{}')
    FROM chat.group_members m WHERE m.org_id = org AND m.user_id = of_user
$$;

-- Who a key belongs to, and whether it counts, with its groups as they are now. It answers nothing else, and only to who has
-- the key.
CREATE FUNCTION chat.find_caller(hash bytea)
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

-- For the version before, to which a key of a disabled user is revoked.
CREATE OR REPLACE FUNCTION chat.find_key(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], key_id text, scopes text[], expires_at timestamptz,
               state text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.org_id, c.user_id, c.plan, c.roles, c.key_id, c.scopes, c.expires_at,
           CASE c.state WHEN 'disabled' THEN 'revoked' ELSE c.state END
    FROM chat.find_caller(hash) c
$$;

-- Groups are those of the provider and of the organisation's own.
CREATE OR REPLACE FUNCTION chat.find_session(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], groups text[], session_id text, issuer text,
               sealed_tokens bytea, fresh_seconds double precision, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.org_id, s.user_id,
           (SELECT p.plan FROM chat.plans p WHERE p.org_id = s.org_id ORDER BY p.since DESC LIMIT 1),
           u.roles,
           s.groups || ARRAY(SELECT o.name FROM unnest(chat.own_groups(s.org_id, s.user_id)) AS o (name)
                             WHERE o.name <> ALL (s.groups)),
           s.session_id, s.issuer, s.sealed_tokens, extract(epoch FROM s.fresh_until - now())::float8, s.expires_at
    FROM chat.sessions s JOIN chat.users u ON u.org_id = s.org_id AND u.user_id = s.user_id
    WHERE s.id_hash = hash AND s.expires_at > now() AND u.disabled_at IS NULL
$$;

REVOKE ALL ON FUNCTION chat.own_groups(text, text), chat.find_caller(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.own_groups(text, text), chat.find_caller(bytea) TO citewire_chat;
