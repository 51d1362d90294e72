-- With an API key go its limits: when it is deleted with its user, and when it is revoked, since it never works again.

ALTER TABLE chat.limits NO FORCE ROW LEVEL SECURITY;
ALTER TABLE chat.api_keys NO FORCE ROW LEVEL SECURITY;
DELETE FROM chat.limits l
WHERE l.scope = 'key' AND NOT EXISTS (SELECT FROM chat.api_keys k WHERE k.org_id = l.org_id AND k.key_id = l.subject
                                                                    AND k.revoked_at IS NULL);
ALTER TABLE chat.api_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE chat.limits FORCE ROW LEVEL SECURITY;

ALTER TABLE chat.limits
    -- Whose it is where it is a key's.
    ADD COLUMN key_id text COLLATE "C" GENERATED ALWAYS AS (CASE scope WHEN 'key' THEN subject END) STORED,
    ADD FOREIGN KEY (org_id, key_id) REFERENCES chat.api_keys ON DELETE CASCADE;

CREATE FUNCTION chat.forget_limits_of_key() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM chat.limits l WHERE l.org_id = NEW.org_id AND l.scope = 'key' AND l.subject = NEW.key_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER forget_limits AFTER UPDATE OF revoked_at ON chat.api_keys
    FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION chat.forget_limits_of_key();
