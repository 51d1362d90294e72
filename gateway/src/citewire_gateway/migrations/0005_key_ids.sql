-- A request carries the id of its API key, so that a key may have a budget of its own.

-- A function's columns can't be changed in place. Gateways of the version before name those that they read, and so
-- work with this one too.
DROP FUNCTION chat.authenticate(bytea);

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
REVOKE ALL ON FUNCTION chat.authenticate(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.authenticate(bytea) TO citewire_chat;
