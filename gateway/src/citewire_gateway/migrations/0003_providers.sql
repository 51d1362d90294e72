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
