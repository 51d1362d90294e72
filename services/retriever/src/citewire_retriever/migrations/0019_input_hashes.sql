-- What a chunk was embedded as: the first 16 bytes of the SHA-256 of what the model was given. A new version takes the
-- vector of a chunk that is embedded as it was. NULL in chunks that were stored before: they are embedded once more.
ALTER TABLE corpus.chunks ADD COLUMN input_hash bytea CHECK (length(input_hash) = 16);
