-- Who may see and change what inside an organisation: grants on collections, and documents' own readers. The previous
-- version of the code knows neither, and goes on: nothing here is restricted until somebody grants something.

-- A subject is `user:ID`, `group:NAME` or `everyone`: everyone in the organisation.
CREATE FUNCTION corpus.is_subject(subject text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT subject = 'everyone' OR subject ~ '^(user|group):.' AND length(subject) <= 206 $$;
REVOKE ALL ON FUNCTION corpus.is_subject(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.is_subject(text) TO citewire_corpus, citewire_worker;

-- A collection without a row is everybody's. Each access holds those before it: read, write, manage.
CREATE TABLE corpus.collection_grants (
    org_id        text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    collection_id bigint NOT NULL,
    subject       text COLLATE "C" NOT NULL CHECK (corpus.is_subject(subject)),
    access        text COLLATE "C" NOT NULL CHECK (access IN ('read', 'write', 'manage')),
    PRIMARY KEY (org_id, collection_id, subject),
    FOREIGN KEY (org_id, collection_id) REFERENCES corpus.collections (org_id, collection_id) ON DELETE CASCADE
);
CREATE INDEX collection_grants_by_subject ON corpus.collection_grants (org_id, subject);

-- Each distinct pair of a collection and readers that documents have. Ids are drawn from those of the collections, so
-- that one number says who may see a document: its own access, else its collection, else 0, the organisation's.
CREATE TABLE corpus.accesses (
    org_id        text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    access_id     bigint NOT NULL DEFAULT nextval('corpus.collection_ids'),
    collection_id bigint,                                      -- NULL: none
    readers       text[] COLLATE "C" NOT NULL CHECK (cardinality(readers) > 0),  -- sorted, each once
    digest        bytea NOT NULL CHECK (length(digest) = 32),  -- SHA-256 of the readers, which may be too long for an index
    PRIMARY KEY (org_id, access_id),
    UNIQUE NULLS NOT DISTINCT (org_id, collection_id, digest),
    FOREIGN KEY (org_id, collection_id) REFERENCES corpus.collections (org_id, collection_id) ON DELETE CASCADE
);

-- The same readers, to be found by subject.
CREATE TABLE corpus.access_readers (
    org_id    text COLLATE "C" NOT NULL,
    subject   text COLLATE "C" NOT NULL CHECK (corpus.is_subject(subject)),
    access_id bigint NOT NULL,
    PRIMARY KEY (org_id, subject, access_id),
    FOREIGN KEY (org_id, access_id) REFERENCES corpus.accesses (org_id, access_id) ON DELETE CASCADE
);

SELECT corpus.protect(name) FROM unnest(ARRAY['collection_grants', 'accesses', 'access_readers']) AS name;
GRANT SELECT, INSERT, DELETE ON corpus.collection_grants TO citewire_corpus;

-- NULL: the document has no readers of its own. All documents begin so: nothing is validated or rewritten here.
ALTER TABLE corpus.documents ADD COLUMN access_id bigint;
ALTER TABLE corpus.documents ADD FOREIGN KEY (org_id, access_id) REFERENCES corpus.accesses (org_id, access_id) NOT VALID;

-- The caller, as kit has set it for this transaction. The previous version of the code says nothing of roles and groups:
-- it is an editor without groups.

CREATE FUNCTION corpus.caller_role() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce(nullif(current_setting('citewire.role', true), ''), 'editor') $$;

CREATE FUNCTION corpus.caller_subjects() RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ARRAY['everyone', 'user:' || coalesce(current_setting('citewire.user_id', true), '')]
        || coalesce((SELECT array_agg('group:' || name)
                     FROM unnest(string_to_array(nullif(current_setting('citewire.groups', true), ''), E'\n')) AS name),
                    '{}')
$$;

-- What follows runs as the owner, whom the policies of access don't bind, and compares org_id itself.

-- What the caller may do with a collection: read, write, manage, or NULL. Of one without grants, and where there is none,
-- readers may read and editors manage; grants don't lift a reader above reading; owners and admins manage everything.
CREATE FUNCTION corpus.collection_access(of_collection bigint) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    role CONSTANT text := corpus.caller_role();
    granted text;
BEGIN
    IF role IN ('owner', 'admin') THEN
        RETURN 'manage';
    END IF;
    IF NOT EXISTS (SELECT FROM corpus.collection_grants g WHERE g.org_id = org AND g.collection_id = of_collection) THEN
        RETURN CASE WHEN role = 'editor' THEN 'manage' ELSE 'read' END;
    END IF;
    SELECT g.access INTO granted
    FROM corpus.collection_grants g
    WHERE g.org_id = org AND g.collection_id = of_collection AND g.subject = ANY (corpus.caller_subjects())
    ORDER BY array_position(ARRAY['manage', 'write', 'read'], g.access)
    LIMIT 1;
    RETURN CASE WHEN role = 'editor' OR granted IS NULL THEN granted ELSE 'read' END;
END
$$;

-- Whether the caller may change a document that it sees: its own, and those of collections that it may write to.
CREATE FUNCTION corpus.may_change(of_collection bigint, of_owner text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT corpus.caller_role() IN ('editor', 'admin', 'owner')
       AND (of_owner = current_setting('citewire.user_id', true)
            OR coalesce(corpus.collection_access(of_collection) IN ('write', 'manage'), false))
$$;

-- Whether nothing of the organisation is hidden from the caller.
CREATE FUNCTION corpus.nothing_hidden() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
BEGIN
    IF corpus.caller_role() IN ('owner', 'admin') THEN
        RETURN true;
    END IF;
    RETURN NOT EXISTS (SELECT FROM corpus.collection_grants g WHERE g.org_id = org)
       AND NOT EXISTS (SELECT FROM corpus.accesses a WHERE a.org_id = org);
END
$$;

-- What the caller may see: 0, collections, and accesses. Readers of a document's own narrow its collection's; who was
-- granted to manage a collection sees all of it.
CREATE FUNCTION corpus.visible_accesses() RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    subjects CONSTANT text[] := corpus.caller_subjects();
    everything CONSTANT boolean := corpus.caller_role() IN ('owner', 'admin');
    resolved CONSTANT text := coalesce(current_setting('citewire.visible', true), '');  -- see visible_setting
    visible bigint[];
    managed bigint[];
BEGIN
    IF resolved NOT IN ('', 'all') THEN
        RETURN QUERY SELECT unnest(string_to_array(trim(BOTH ',' FROM resolved), ',')::bigint[]);
        RETURN;
    END IF;
    RETURN NEXT 0;
    IF everything THEN
        RETURN QUERY SELECT c.collection_id FROM corpus.collections c WHERE c.org_id = org;
        RETURN QUERY SELECT a.access_id FROM corpus.accesses a WHERE a.org_id = org;
        RETURN;
    END IF;
    visible := ARRAY(
        SELECT c.collection_id FROM corpus.collections c
        WHERE c.org_id = org AND NOT EXISTS (
            SELECT FROM corpus.collection_grants g WHERE g.org_id = org AND g.collection_id = c.collection_id)
        UNION
        SELECT g.collection_id FROM corpus.collection_grants g WHERE g.org_id = org AND g.subject = ANY (subjects)
    );
    RETURN QUERY SELECT unnest(visible);
    RETURN QUERY
    SELECT DISTINCT r.access_id
    FROM corpus.access_readers r
    JOIN corpus.accesses a ON a.org_id = org AND a.access_id = r.access_id
    WHERE r.org_id = org AND r.subject = ANY (subjects)
      AND (a.collection_id IS NULL OR a.collection_id = ANY (visible));
    managed := ARRAY(
        SELECT g.collection_id FROM corpus.collection_grants g
        WHERE g.org_id = org AND g.subject = ANY (subjects) AND g.access = 'manage'
    );
    IF managed <> '{}' THEN
        RETURN QUERY
        SELECT a.access_id FROM corpus.accesses a WHERE a.org_id = org AND a.collection_id = ANY (managed);
    END IF;
END
$$;

-- The setting citewire.visible says what the functions above found, for the rest of a transaction: `all`, or ids with a comma
-- before and after each. Empty, as the previous version of the code leaves it: they are asked for each row.
CREATE FUNCTION corpus.visible_setting() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF corpus.nothing_hidden() THEN
        RETURN 'all';
    END IF;
    RETURN ',' || array_to_string(ARRAY(SELECT corpus.visible_accesses()), ',') || ',';
END
$$;

CREATE FUNCTION corpus.sees_all() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE coalesce(current_setting('citewire.visible', true), '')
        WHEN 'all' THEN true WHEN '' THEN corpus.nothing_hidden() ELSE false
    END;
END
$$;

-- Without a search_path of its own, which would take longer than the rest: it runs as its caller, and what isn't qualified is
-- of pg_catalog, which comes first.
CREATE FUNCTION corpus.sees_access(of_access bigint) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    resolved CONSTANT text := coalesce(current_setting('citewire.visible', true), '');
BEGIN
    IF resolved = '' THEN
        RETURN corpus.nothing_hidden() OR of_access IN (SELECT corpus.visible_accesses());
    END IF;
    RETURN resolved = 'all' OR strpos(resolved, ',' || of_access || ',') > 0;
END
$$;

-- The readers of an access; none of NULL, which is a document without readers of its own.
CREATE FUNCTION corpus.readers_of(of_org text, of_access bigint) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF of_access IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN (SELECT a.readers FROM corpus.accesses a WHERE a.org_id = of_org AND a.access_id = of_access);
END
$$;

-- The access of a collection and readers, made if there is none; NULL without readers. Statements see it only if they
-- begin later.
CREATE FUNCTION corpus.intern_access(of_org text, of_collection bigint, of_readers text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    sorted CONSTANT text[] := ARRAY(SELECT DISTINCT reader COLLATE "C" FROM unnest(of_readers) AS reader ORDER BY 1);
    wanted CONSTANT bytea := sha256(convert_to(array_to_string(sorted, E'\n'), 'UTF8'));
    known bigint;
BEGIN
    -- Everyone is who sees it without readers, too.
    IF cardinality(sorted) = 0 OR 'everyone' = ANY (sorted) THEN
        RETURN NULL;
    END IF;
    INSERT INTO corpus.accesses (org_id, collection_id, readers, digest) VALUES (of_org, of_collection, sorted, wanted)
    ON CONFLICT (org_id, collection_id, digest) DO NOTHING
    RETURNING access_id INTO known;
    IF known IS NOT NULL THEN
        INSERT INTO corpus.access_readers (org_id, subject, access_id)
        SELECT of_org, reader, known FROM unnest(sorted) AS reader;
        RETURN known;
    END IF;
    SELECT a.access_id INTO STRICT known FROM corpus.accesses a
    WHERE a.org_id = of_org AND a.collection_id IS NOT DISTINCT FROM of_collection AND a.digest = wanted;
    RETURN known;
END
$$;

REVOKE ALL ON FUNCTION
    corpus.caller_role(), corpus.caller_subjects(), corpus.collection_access(bigint), corpus.may_change(bigint, text),
    corpus.nothing_hidden(), corpus.visible_accesses(), corpus.visible_setting(), corpus.sees_all(),
    corpus.sees_access(bigint),
    corpus.readers_of(text, bigint), corpus.intern_access(text, bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    corpus.caller_role(), corpus.caller_subjects(), corpus.collection_access(bigint), corpus.may_change(bigint, text),
    corpus.nothing_hidden(), corpus.visible_accesses(), corpus.visible_setting(), corpus.sees_all(),
    corpus.sees_access(bigint),
    corpus.readers_of(text, bigint), corpus.intern_access(text, bigint, text[]) TO citewire_corpus;
GRANT EXECUTE ON FUNCTION corpus.readers_of(text, bigint), corpus.intern_access(text, bigint, text[]) TO citewire_worker;

-- A document that moves keeps its readers, whichever version of the code moves it; and goes only where its mover may write,
-- also if it is the mover's own.
CREATE FUNCTION corpus.move_access() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_user = 'citewire_corpus' AND corpus.collection_access(NEW.collection_id) IS DISTINCT FROM 'manage'
       AND corpus.collection_access(NEW.collection_id) IS DISTINCT FROM 'write' THEN
        RAISE insufficient_privilege USING MESSAGE = 'the collection may not be written to';
    END IF;
    NEW.access_id := corpus.intern_access(NEW.org_id, NEW.collection_id, corpus.readers_of(NEW.org_id, NEW.access_id));
    RETURN NEW;
END
$$;
CREATE TRIGGER move_access BEFORE UPDATE OF collection_id ON corpus.documents
    FOR EACH ROW WHEN (OLD.collection_id IS DISTINCT FROM NEW.collection_id) EXECUTE FUNCTION corpus.move_access();

-- Who changes what may be seen asks again in the same transaction.
CREATE FUNCTION corpus.forget_visible() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM set_config('citewire.visible', '', true);
    RETURN NULL;
END
$$;
CREATE TRIGGER forget_visible AFTER INSERT OR UPDATE OR DELETE ON corpus.collection_grants
    FOR EACH STATEMENT EXECUTE FUNCTION corpus.forget_visible();
CREATE TRIGGER forget_visible AFTER INSERT OR UPDATE OR DELETE ON corpus.accesses
    FOR EACH STATEMENT EXECUTE FUNCTION corpus.forget_visible();
CREATE TRIGGER forget_visible AFTER INSERT ON corpus.collections
    FOR EACH STATEMENT EXECUTE FUNCTION corpus.forget_visible();

-- The policies of the retriever, beside the tenant's; the worker has the tenant's alone. Searches that nothing restricts
-- only compare the setting: the planner would put a function in SQL into each statement, or plan a sub-select of each, in the
-- time that a small search takes.

CREATE POLICY sees ON corpus.documents AS RESTRICTIVE FOR SELECT TO citewire_corpus USING (
    current_setting('citewire.visible', true) = 'all'
    OR corpus.sees_access(coalesce(access_id, collection_id, 0))
    OR owner = current_setting('citewire.user_id', true)
);
CREATE POLICY adds ON corpus.documents AS RESTRICTIVE FOR INSERT TO citewire_corpus
    WITH CHECK (corpus.collection_access(collection_id) IN ('write', 'manage'));
CREATE POLICY changes ON corpus.documents AS RESTRICTIVE FOR UPDATE TO citewire_corpus
    USING (corpus.may_change(collection_id, owner));
CREATE POLICY deletes ON corpus.documents AS RESTRICTIVE FOR DELETE TO citewire_corpus
    USING (corpus.may_change(collection_id, owner));

-- The last condition is for one that the statement itself makes: it isn't among what could be seen when it began.
CREATE POLICY sees ON corpus.collections AS RESTRICTIVE FOR SELECT TO citewire_corpus USING (
    current_setting('citewire.visible', true) = 'all'
    OR corpus.sees_access(collection_id)
    OR corpus.collection_access(collection_id) IS NOT NULL
);
CREATE POLICY adds ON corpus.collections AS RESTRICTIVE FOR INSERT TO citewire_corpus
    WITH CHECK (corpus.caller_role() <> 'reader');
-- Who uploads into a collection locks it, too.
CREATE POLICY changes ON corpus.collections AS RESTRICTIVE FOR UPDATE TO citewire_corpus
    USING (corpus.collection_access(collection_id) IN ('write', 'manage'))
    WITH CHECK (corpus.collection_access(collection_id) = 'manage');
CREATE POLICY deletes ON corpus.collections AS RESTRICTIVE FOR DELETE TO citewire_corpus
    USING (corpus.collection_access(collection_id) = 'manage');
CREATE POLICY manages ON corpus.collection_grants AS RESTRICTIVE TO citewire_corpus
    USING (corpus.collection_access(collection_id) = 'manage');

-- What belongs to a document is seen with it. A function, because a sub-select here lets the planner read all documents of
-- an organisation, and all their chunks, for ten of them. Vectors and terms have no such policy, as a graph is walked
-- through thousands of them: every statement joins them with their documents, which a test checks.
CREATE FUNCTION corpus.sees_document(of_document bigint) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM corpus.documents d
                   WHERE d.org_id = current_setting('citewire.org_id', true) AND d.document_id = of_document);
END
$$;
REVOKE ALL ON FUNCTION corpus.sees_document(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.sees_document(bigint) TO citewire_corpus;

DO $$
DECLARE
    belongings text;
BEGIN
    FOREACH belongings IN ARRAY ARRAY['versions', 'originals', 'texts', 'chunks', 'ingest_jobs'] LOOP
        EXECUTE format($policy$
            CREATE POLICY sees ON corpus.%I AS RESTRICTIVE TO citewire_corpus
                USING (current_setting('citewire.visible', true) = 'all' OR corpus.sees_document(document_id))
        $policy$, belongings);
    END LOOP;
END
$$;

-- A mean of vectors tells of all documents in it.
CREATE POLICY sees ON corpus.centroids AS RESTRICTIVE FOR SELECT TO citewire_corpus USING (corpus.sees_all());

-- Who is erased loses the name in grants and among readers, too. It is replaced, not removed: without its last grant a
-- collection would be everybody's, and so would a document without its last reader.
CREATE OR REPLACE FUNCTION corpus.forget_user(of_user text, successor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    old CONSTANT text := 'user:' || of_user;
    new CONSTANT text := 'user:' || successor;
BEGIN
    UPDATE corpus.ingest_jobs SET user_id = successor WHERE org_id = org AND user_id = of_user;
    DELETE FROM corpus.stored_bytes WHERE org_id = org AND user_id = of_user;  -- with the documents, they add up to 0
    UPDATE corpus.collection_grants SET subject = new WHERE org_id = org AND subject = old;
    UPDATE corpus.accesses a
    SET readers = renamed.readers, digest = sha256(convert_to(array_to_string(renamed.readers, E'\n'), 'UTF8'))
    FROM (
        SELECT x.access_id,
               ARRAY(SELECT reader COLLATE "C" FROM unnest(array_replace(x.readers, old, new)) AS reader ORDER BY 1)
                   AS readers
        FROM corpus.access_readers r
        JOIN corpus.accesses x ON x.org_id = org AND x.access_id = r.access_id
        WHERE r.org_id = org AND r.subject = old
    ) renamed
    WHERE a.org_id = org AND a.access_id = renamed.access_id;
    UPDATE corpus.access_readers SET subject = new WHERE org_id = org AND subject = old;
END
$$;
