-- A gateway of the version before knows a policy for conversations alone, and removes the row where they are kept for good:
-- during an upgrade it would take the time for documents along, which nobody has asked it to. Rows go with their organisation
-- still, as the owner removes them then.
CREATE FUNCTION chat.keep_document_days() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE chat.retention_policies SET conversation_days = NULL WHERE org_id = OLD.org_id;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION chat.keep_document_days() FROM PUBLIC;
CREATE TRIGGER keep_document_days BEFORE DELETE ON chat.retention_policies
    FOR EACH ROW WHEN (OLD.document_days IS NOT NULL AND current_user = 'citewire_chat')
    EXECUTE FUNCTION chat.keep_document_days();
