-- Clients make links of documents' addresses. One that was stored before they were checked may be a script's: it is cleared,
-- and from here on the table takes none. The policies, which bind the owner as well, are put back before the commit.
ALTER TABLE corpus.documents NO FORCE ROW LEVEL SECURITY;
UPDATE corpus.documents SET url = '' WHERE url <> '' AND url !~* '^https?://';
ALTER TABLE corpus.documents FORCE ROW LEVEL SECURITY;
ALTER TABLE corpus.documents ADD CONSTRAINT documents_url_is_web CHECK (url = '' OR url ~* '^https?://');
