-- The schema, the gateway's role, and who may call: organisations, their plans, users and API keys.

CREATE SCHEMA IF NOT EXISTS chat;

-- Roles belong to the whole server, and migrations of several databases may run at once: losing the race is fine.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'citewire_chat') THEN
        BEGIN
            CREATE ROLE citewire_chat LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'citewire_chat' AND (rolsuper OR rolbypassrls)) THEN
        RAISE EXCEPTION 'role citewire_chat is a superuser or has BYPASSRLS: tenants would not be kept apart';
    END IF;
END
$$;

GRANT USAGE ON SCHEMA chat TO citewire_chat;

-- Makes a table a tenant's: security on, also for its owner, and one policy that compares org_id with the tenant that
-- kit has set for this transaction. Without a tenant the setting is NULL or empty, and nothing is seen or written.
CREATE FUNCTION chat.protect(table_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('ALTER TABLE chat.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('ALTER TABLE chat.%I FORCE ROW LEVEL SECURITY', table_name);
    EXECUTE format($policy$
        CREATE POLICY tenant ON chat.%I
            USING (org_id = current_setting('citewire.org_id', true))
            WITH CHECK (org_id = current_setting('citewire.org_id', true))
    $policy$, table_name);
END
$$;
REVOKE ALL ON FUNCTION chat.protect(text) FROM PUBLIC;

CREATE TABLE chat.orgs (
    org_id     text COLLATE "C" PRIMARY KEY CHECK (org_id ~ '^[A-Za-z0-9_.:@-]{1,128}$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Which plan an organisation is on, and since when: the newest row counts, older ones tell what an old chat was under.
CREATE TABLE chat.plans (
    org_id text COLLATE "C" NOT NULL REFERENCES chat.orgs ON DELETE CASCADE,
    since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    plan   text NOT NULL CHECK (plan IN ('free', 'basic', 'pro')),
    PRIMARY KEY (org_id, since)
);

CREATE TABLE chat.users (
    org_id     text COLLATE "C" NOT NULL REFERENCES chat.orgs ON DELETE CASCADE,
    user_id    text COLLATE "C" NOT NULL CHECK (user_id ~ '^[A-Za-z0-9_.:@-]{1,128}$'),
    roles      text[] NOT NULL DEFAULT '{member}',
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, user_id)
);

CREATE TABLE chat.api_keys (
    org_id       text COLLATE "C" NOT NULL,
    key_id       text COLLATE "C" NOT NULL,               -- for people and for `keys revoke`; says nothing of the key
    user_id      text COLLATE "C" NOT NULL,
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    -- SHA-256 of the key. A slow, salted hash protects secrets that can be guessed; this one is 32 random bytes.
    key_hash     bytea NOT NULL CHECK (length(key_hash) = 32),
    prefix       text NOT NULL,                           -- the key's first characters, to recognise it by
    created_at   timestamptz NOT NULL DEFAULT now(),
    revoked_at   timestamptz,
    last_used_at timestamptz,                             -- written now and then, not at each use
    PRIMARY KEY (org_id, key_id),
    FOREIGN KEY (org_id, user_id) REFERENCES chat.users ON DELETE CASCADE
);
CREATE UNIQUE INDEX api_keys_hash ON chat.api_keys (key_hash);

SELECT chat.protect(name) FROM unnest(ARRAY['orgs', 'plans', 'users', 'api_keys']) AS name;

GRANT SELECT, INSERT ON chat.orgs, chat.plans, chat.users TO citewire_chat;
GRANT SELECT, INSERT ON chat.api_keys TO citewire_chat;
GRANT UPDATE (revoked_at) ON chat.api_keys TO citewire_chat;

-- The functions below work before, or without, a tenant. They run as this schema's owner, whom FORCE ROW LEVEL SECURITY
-- binds as well unless the owner is a superuser: these policies are for them, and for nobody else.
CREATE POLICY owner_reads_all ON chat.plans FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_reads_all ON chat.users FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_reads_all ON chat.api_keys FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_touches_all ON chat.api_keys FOR UPDATE TO CURRENT_USER USING (true) WITH CHECK (true);

-- Who a key belongs to: the one question that is asked before the tenant is known. It answers nothing else, and only
-- to who has the key.
CREATE FUNCTION chat.authenticate(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.org_id, k.user_id,
           (SELECT p.plan FROM chat.plans p WHERE p.org_id = k.org_id ORDER BY p.since DESC LIMIT 1),
           u.roles, k.revoked_at IS NOT NULL
    FROM chat.api_keys k JOIN chat.users u ON u.org_id = k.org_id AND u.user_id = k.user_id
    WHERE k.key_hash = hash
$$;

-- Notes when keys were last used; a time never goes back.
CREATE FUNCTION chat.touch_api_keys(hashes bytea[], times timestamptz[]) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE chat.api_keys k SET last_used_at = used.at
    FROM unnest(hashes, times) AS used (hash, at)
    WHERE k.key_hash = used.hash AND (k.last_used_at IS NULL OR k.last_used_at < used.at)
$$;

REVOKE ALL ON FUNCTION chat.authenticate(bytea), chat.touch_api_keys(bytea[], timestamptz[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.authenticate(bytea), chat.touch_api_keys(bytea[], timestamptz[]) TO citewire_chat;
