-- Places of a chunk's parts, where it holds several: an array of [start in the text, place]. NULL where all of it has the one
-- place, as every chunk that was stored before.
ALTER TABLE corpus.chunks ADD COLUMN places jsonb;
