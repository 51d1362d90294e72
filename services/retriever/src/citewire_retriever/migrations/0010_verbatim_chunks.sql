-- Whether a chunk's text is its document's text between char_start and char_end. A row of a Markdown table isn't: its text
-- is `column: value` pairs. Only then may an offset in the chunk be read as one in the document.

ALTER TABLE corpus.chunks ADD COLUMN verbatim boolean NOT NULL DEFAULT true;
UPDATE corpus.chunks SET verbatim = false WHERE char_end - char_start <> length(text);
