-- Passwords for the roles that the migrations find and grant rights to. Development only.
CREATE ROLE citewire_corpus LOGIN PASSWORD 'dev-only';
CREATE ROLE citewire_worker LOGIN PASSWORD 'dev-only';
CREATE ROLE citewire_chat LOGIN PASSWORD 'dev-only';
CREATE ROLE citewire_ledger LOGIN PASSWORD 'dev-only';
