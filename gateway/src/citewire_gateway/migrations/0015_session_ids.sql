-- A session's cookie is replaced when it is refreshed. The one before works until the new one has been seen and a short overlap
-- is over: several tabs send requests at once, and an answer may get lost.
ALTER TABLE chat.sessions
    ADD COLUMN previous_hash bytea CHECK (length(previous_hash) = 32),
    ADD COLUMN previous_until timestamptz,                -- NULL: the new one hasn't been seen
    ADD COLUMN replaced_at timestamptz;                   -- when the cookie was last replaced
CREATE UNIQUE INDEX sessions_previous_hash ON chat.sessions (previous_hash) WHERE previous_hash IS NOT NULL;

-- Whose session a cookie is, before the tenant is known, and only to who has the cookie, or had it before.
CREATE FUNCTION chat.find_cookie(hash bytea)
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
$$;

-- For the version before.
CREATE OR REPLACE FUNCTION chat.find_session(hash bytea)
RETURNS TABLE (org_id text, user_id text, plan text, roles text[], groups text[], session_id text, issuer text,
               sealed_tokens bytea, fresh_seconds double precision, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.org_id, c.user_id, c.plan, c.roles, c.groups, c.session_id, c.issuer, c.sealed_tokens, c.fresh_seconds,
           c.expires_at
    FROM chat.find_cookie(hash) c WHERE c.state <> 'outdated'
$$;

REVOKE ALL ON FUNCTION chat.find_cookie(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.find_cookie(bytea) TO citewire_chat;
