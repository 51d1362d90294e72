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
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], revoked boolean, key_id text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.org_id, k.user_id,
           (SELECT p.plan FROM chat.plans p WHERE p.org_id = k.org_id ORDER BY p.since DESC LIMIT 1),
           u.roles, k.revoked_at IS NOT NULL, k.key_id
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

-- Conversations, what each chat spent, and answers kept for repeated requests.

CREATE TABLE chat.conversations (
    org_id          text COLLATE "C" NOT NULL,
    conversation_id uuid NOT NULL,                        -- version 7
    user_id         text COLLATE "C" NOT NULL,            -- only this user sees it
    profile         text NOT NULL,                        -- of its first question
    title           text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    messages        integer NOT NULL DEFAULT 0,           -- ordinals given out
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, conversation_id)
);
CREATE INDEX conversations_of_user ON chat.conversations (org_id, user_id, updated_at DESC, conversation_id DESC);

CREATE TABLE chat.messages (
    org_id          text COLLATE "C" NOT NULL,
    conversation_id uuid NOT NULL,
    ordinal         integer NOT NULL,                     -- from 1; a question and its answer are neighbours
    role            text NOT NULL CHECK (role IN ('user', 'assistant')),
    content         text NOT NULL,
    exchange_id     uuid NOT NULL,
    -- An answer that was cut is kept as far as it was sent, and says so.
    state           text NOT NULL DEFAULT 'complete' CHECK (state IN ('complete', 'cancelled', 'failed')),
    details         jsonb NOT NULL DEFAULT '{}',          -- of an answer: citations, usage, steps, model, finish reason
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, conversation_id, ordinal),
    FOREIGN KEY (org_id, conversation_id) REFERENCES chat.conversations ON DELETE CASCADE
);

-- One row per chat, opened before it costs anything and closed whatever happens. It outlives its conversation.
CREATE TABLE chat.exchanges (
    org_id            text COLLATE "C" NOT NULL,
    exchange_id       uuid NOT NULL,                      -- version 7
    user_id           text COLLATE "C" NOT NULL,
    conversation_id   uuid,
    profile           text NOT NULL,
    dialect           text NOT NULL,
    request_id        text NOT NULL,
    state             text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    reason            text,                               -- why it was cancelled or failed
    provider          text,
    model             text,
    embedding_model   text,
    embedding_tokens  bigint NOT NULL DEFAULT 0,
    prompt_tokens     bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    estimated         boolean NOT NULL DEFAULT false,     -- whether a token count is our estimate
    first_token_ms    integer,                            -- from the request to the first token
    started_at        timestamptz NOT NULL DEFAULT now(),
    ended_at          timestamptz,
    lease_until       timestamptz NOT NULL,               -- a running one whose lease has passed lost its gateway
    PRIMARY KEY (org_id, exchange_id),
    CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX exchanges_running ON chat.exchanges (lease_until) WHERE state = 'running';

-- A client that doesn't know whether its request arrived sends it again with the same Idempotency-Key. Keys are a
-- user's own: another user's could be guessed, and would give away an answer.
CREATE TABLE chat.idempotency_keys (
    org_id       text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    operation    text NOT NULL,                           -- which route: the same key on another one is a conflict
    request_hash bytea NOT NULL,
    owner        uuid NOT NULL,                           -- the attempt that holds it
    response     jsonb,                                   -- NULL while the first attempt is running
    created_at   timestamptz NOT NULL DEFAULT now(),
    lease_until  timestamptz NOT NULL,                    -- of the running attempt; afterwards, when the answer goes
    PRIMARY KEY (org_id, user_id, key)
);
CREATE INDEX idempotency_keys_lease ON chat.idempotency_keys (lease_until);

SELECT chat.protect(name) FROM unnest(ARRAY['conversations', 'messages', 'exchanges', 'idempotency_keys']) AS name;

GRANT SELECT, INSERT, UPDATE, DELETE ON chat.conversations, chat.messages, chat.idempotency_keys TO citewire_chat;
GRANT SELECT, INSERT, UPDATE ON chat.exchanges TO citewire_chat;

CREATE POLICY owner_reads_all ON chat.exchanges FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_closes_all ON chat.exchanges FOR UPDATE TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY owner_sweeps_all ON chat.idempotency_keys TO CURRENT_USER USING (true) WITH CHECK (true);

-- Closes the exchanges of gateways that died, of every organisation, and forgets kept answers whose time is over.
-- Several gateways may do this at once.
CREATE FUNCTION chat.sweep(most integer) RETURNS TABLE (exchanges bigint, keys bigint)
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH closed AS (
        UPDATE chat.exchanges e SET state = 'failed', reason = 'ORPHANED', ended_at = now()
        FROM (SELECT org_id, exchange_id FROM chat.exchanges
              WHERE state = 'running' AND lease_until < now()
              ORDER BY lease_until LIMIT most FOR UPDATE SKIP LOCKED) lost
        WHERE e.org_id = lost.org_id AND e.exchange_id = lost.exchange_id
        RETURNING 1
    ), forgotten AS (
        DELETE FROM chat.idempotency_keys i
        USING (SELECT org_id, user_id, key FROM chat.idempotency_keys
               WHERE lease_until < now()
               ORDER BY lease_until LIMIT most FOR UPDATE SKIP LOCKED) old
        WHERE i.org_id = old.org_id AND i.user_id = old.user_id AND i.key = old.key
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM closed), (SELECT count(*) FROM forgotten)
$$;
REVOKE ALL ON FUNCTION chat.sweep(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.sweep(integer) TO citewire_chat;

-- Tenants' own model providers. Keys and addresses are ciphertext that only the embedder and the generator can open.

CREATE TABLE chat.providers (
    org_id          text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL,            -- empty: the organisation's, for users without their own
    type            text NOT NULL CHECK (type IN ('chat', 'embedding', 'rerank')),
    position        smallint NOT NULL CHECK (position BETWEEN 0 AND 4),  -- 0 is asked first, the others take over
    provider        text NOT NULL,                        -- empty in a fallback to a model of the operator's
    model           text NOT NULL,
    dimensions      integer NOT NULL DEFAULT 0 CHECK (dimensions BETWEEN 0 AND 4096),
    sealed_api_base bytea NOT NULL DEFAULT '',
    sealed_key      bytea NOT NULL DEFAULT '',
    test            jsonb,                                -- what the provider answered when it was saved
    updated_by      text COLLATE "C" NOT NULL,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, user_id, type, position),
    CHECK (type = 'chat' OR position = 0)
);

-- What an organisation demands of providers. No row: nothing.
CREATE TABLE chat.provider_rules (
    org_id      text COLLATE "C" PRIMARY KEY,
    require_own boolean NOT NULL,                         -- whether the operator's providers may not be used
    updated_at  timestamptz NOT NULL DEFAULT now()
);

SELECT chat.protect(name) FROM unnest(ARRAY['providers', 'provider_rules']) AS name;

GRANT SELECT, INSERT, UPDATE, DELETE ON chat.providers, chat.provider_rules TO citewire_chat;

-- The ingest worker embeds with the tenant's own provider, and sees nothing else of this schema. The retriever's
-- migrations make its role; these may run before them.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'citewire_worker') THEN
        BEGIN
            CREATE ROLE citewire_worker LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
END
$$;

-- The view's own condition keeps tenants apart also where its owner is a superuser, whom no policy binds.
CREATE VIEW chat.embedding_providers WITH (security_barrier) AS
    SELECT org_id, user_id, provider, model, dimensions, sealed_api_base, sealed_key
    FROM chat.providers
    WHERE org_id = current_setting('citewire.org_id', true) AND type = 'embedding' AND position = 0;

CREATE VIEW chat.embedding_rules WITH (security_barrier) AS
    SELECT org_id, require_own
    FROM chat.provider_rules
    WHERE org_id = current_setting('citewire.org_id', true);

GRANT USAGE ON SCHEMA chat TO citewire_worker;
GRANT SELECT ON chat.embedding_providers, chat.embedding_rules TO citewire_worker;

-- Whose providers there are, of every organisation: for the rotation of master keys, which then works tenant by tenant.
-- It gives no ciphertext.
CREATE POLICY owner_reads_all ON chat.providers FOR SELECT TO CURRENT_USER USING (true);
CREATE FUNCTION chat.sealed_providers()
RETURNS TABLE (org_id text, user_id text, type text, "position" smallint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.org_id, p.user_id, p.type, p.position
    FROM chat.providers p
    WHERE p.sealed_key <> '' OR p.sealed_api_base <> ''
    ORDER BY 1, 2, 3, 4
$$;
REVOKE ALL ON FUNCTION chat.sealed_providers() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.sealed_providers() TO citewire_chat;

-- Profiles that tenants make of the server's, each version a row: a chat's record names what it ran with.

CREATE TABLE chat.profiles (
    org_id      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z][a-z0-9_-]{0,63}$'),
    version     integer NOT NULL CHECK (version >= 1),
    base        text NOT NULL,                            -- the server's profile that it changes
    description text NOT NULL DEFAULT '' CHECK (length(description) <= 500),
    changes     jsonb NOT NULL CHECK (jsonb_typeof(changes) = 'object'),
    deleted     boolean NOT NULL DEFAULT false,
    created_by  text COLLATE "C" NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name, version)
);

SELECT chat.protect('profiles');

GRANT SELECT, INSERT ON chat.profiles TO citewire_chat;
