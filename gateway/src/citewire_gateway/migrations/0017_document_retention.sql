-- How long an organisation keeps documents, beside conversations. NULL: until somebody deletes them. To the version before, a
-- policy for documents alone is one that erases no conversations.

ALTER TABLE chat.retention_policies
    ALTER COLUMN conversation_days DROP NOT NULL,
    ADD COLUMN document_days integer CHECK (document_days BETWEEN 1 AND 36500);

-- Which organisations have a policy: the sweeper then works under each.
CREATE FUNCTION chat.retention_days() RETURNS TABLE (org_id text, conversation_days integer, document_days integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.org_id, p.conversation_days, p.document_days FROM chat.retention_policies p ORDER BY p.org_id
$$;
REVOKE ALL ON FUNCTION chat.retention_days() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.retention_days() TO citewire_chat;
