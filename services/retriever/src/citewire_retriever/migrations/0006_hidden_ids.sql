-- All organisations take their ids from the same sequences. As they counted, two ids of one organisation told how much all
-- others had stored in between. From here on an id is the number's place in a permutation that only this database knows.

-- A Feistel network of four rounds over 52 bits, in the upper half of what JSON can hold: ids given before lie below it.
-- The key is a part of the function, so that a copy of the database goes on where this one stopped.
DO $create$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION corpus.hidden_id(counter regclass) RETURNS bigint
        LANGUAGE plpgsql VOLATILE
        SET search_path = pg_catalog, pg_temp
        AS $body$
        DECLARE
            half constant bigint := (1 << 26) - 1;
            number bigint := nextval(counter);
            high bigint := (number >> 26) & half;
            low bigint := number & half;
            mixed bigint;
        BEGIN
            FOR round IN 1..4 LOOP
                mixed := ('x' || encode(substr(sha256(
                    '\x%s'::bytea || int8send((round::bigint << 32) | low) || convert_to(counter::text, 'UTF8')
                ), 1, 8), 'hex'))::bit(64)::bigint & half;
                mixed := high # mixed;
                high := low;
                low := mixed;
            END LOOP;
            RETURN (1::bigint << 52) | (high << 26) | low;
        END
        $body$
    $function$, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));
END
$create$;
REVOKE ALL ON FUNCTION corpus.hidden_id(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.hidden_id(regclass) TO citewire_corpus, citewire_worker;

ALTER TABLE corpus.documents ALTER COLUMN document_id SET DEFAULT corpus.hidden_id('corpus.document_ids');
ALTER TABLE corpus.chunks ALTER COLUMN chunk_id SET DEFAULT corpus.hidden_id('corpus.chunk_ids');
