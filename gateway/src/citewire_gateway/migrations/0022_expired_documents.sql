-- For how many days documents are kept whose validity has ended. NULL: until somebody deletes them.

ALTER TABLE chat.retention_policies
    ADD COLUMN expired_document_days integer CHECK (expired_document_days BETWEEN 1 AND 36500);

-- Which organisations have a policy: the sweeper then works under each.
CREATE FUNCTION chat.retention_of_all()
RETURNS TABLE (org_id text, conversation_days integer, document_days integer, expired_document_days integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.org_id, p.conversation_days, p.document_days, p.expired_document_days
    FROM chat.retention_policies p ORDER BY p.org_id
$$;
REVOKE ALL ON FUNCTION chat.retention_of_all() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.retention_of_all() TO citewire_chat;

-- As 0021: a gateway that knows conversations alone removes no row that says something else.
DROP TRIGGER keep_document_days ON chat.retention_policies;
CREATE TRIGGER keep_document_days BEFORE DELETE ON chat.retention_policies
    FOR EACH ROW
    WHEN ((OLD.document_days IS NOT NULL OR OLD.expired_document_days IS NOT NULL) AND current_user = 'citewire_chat')
    EXECUTE FUNCTION chat.keep_document_days();
