-- Exports of what is held about a user. Who may not manage a collection sees which grants name it, and no others; the same
-- holds for readers of documents, which owners and admins see all.

DROP POLICY manages ON corpus.collection_grants;
CREATE POLICY sees ON corpus.collection_grants AS RESTRICTIVE FOR SELECT TO citewire_corpus USING (
    corpus.collection_access(collection_id) = 'manage'
    OR subject = 'user:' || current_setting('citewire.user_id', true)
);
CREATE POLICY adds ON corpus.collection_grants AS RESTRICTIVE FOR INSERT TO citewire_corpus
    WITH CHECK (corpus.collection_access(collection_id) = 'manage');
CREATE POLICY deletes ON corpus.collection_grants AS RESTRICTIVE FOR DELETE TO citewire_corpus
    USING (corpus.collection_access(collection_id) = 'manage');

GRANT SELECT ON corpus.access_readers TO citewire_corpus;
CREATE POLICY sees ON corpus.access_readers AS RESTRICTIVE FOR SELECT TO citewire_corpus USING (
    corpus.caller_role() IN ('owner', 'admin') OR subject = 'user:' || current_setting('citewire.user_id', true)
);
