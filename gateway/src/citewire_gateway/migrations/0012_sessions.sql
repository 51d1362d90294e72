-- Sessions of browsers whose users signed in at an identity provider. Any gateway can serve any of them.
CREATE TABLE chat.sessions (
    org_id           text COLLATE "C" NOT NULL,
    session_id       text COLLATE "C" NOT NULL,           -- for people; says nothing of the cookie
    user_id          text COLLATE "C" NOT NULL,
    id_hash          bytea NOT NULL CHECK (length(id_hash) = 32),  -- SHA-256 of the cookie, which is 32 random bytes
    issuer           text NOT NULL,                       -- the name of the provider in the settings
    groups           text[] NOT NULL CHECK (cardinality(groups) <= 200),
    sealed_tokens    bytea NOT NULL,                      -- the provider's; only the gateway's secret opens them
    fresh_until      timestamptz NOT NULL,                -- until when groups and roles count without asking again
    refreshing_until timestamptz,                         -- a gateway asks the provider until then
    created_at       timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (org_id, session_id),
    FOREIGN KEY (org_id, user_id) REFERENCES chat.users ON DELETE CASCADE
);
CREATE UNIQUE INDEX sessions_hash ON chat.sessions (id_hash);
CREATE INDEX sessions_expiry ON chat.sessions (expires_at);
CREATE INDEX sessions_of_user ON chat.sessions (org_id, user_id);

SELECT chat.protect('sessions');

GRANT SELECT, INSERT, UPDATE, DELETE ON chat.sessions TO citewire_chat;
GRANT UPDATE (roles) ON chat.users TO citewire_chat;

CREATE POLICY owner_sees_all ON chat.sessions TO CURRENT_USER USING (true) WITH CHECK (true);

-- Whose session a cookie is, before the tenant is known, and only to who has the cookie.
CREATE FUNCTION chat.find_session(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], groups text[], session_id text, issuer text,
               sealed_tokens bytea, fresh_seconds double precision, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.org_id, s.user_id,
           (SELECT p.plan FROM chat.plans p WHERE p.org_id = s.org_id ORDER BY p.since DESC LIMIT 1),
           u.roles, s.groups, s.session_id, s.issuer, s.sealed_tokens,
           extract(epoch FROM s.fresh_until - now())::float8, s.expires_at
    FROM chat.sessions s JOIN chat.users u ON u.org_id = s.org_id AND u.user_id = s.user_id
    WHERE s.id_hash = hash AND s.expires_at > now()
$$;

-- Forgets sessions whose time is over, of every organisation. Several gateways may do this at once.
CREATE FUNCTION chat.sweep_sessions(most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH forgotten AS (
        DELETE FROM chat.sessions s
        USING (SELECT org_id, session_id FROM chat.sessions WHERE expires_at < now()
               ORDER BY expires_at LIMIT most FOR UPDATE SKIP LOCKED) old
        WHERE s.org_id = old.org_id AND s.session_id = old.session_id
        RETURNING 1
    )
    SELECT count(*) FROM forgotten
$$;

REVOKE ALL ON FUNCTION chat.find_session(bytea), chat.sweep_sessions(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.find_session(bytea), chat.sweep_sessions(integer) TO citewire_chat;
