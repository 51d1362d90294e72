-- Creates the roles to which the migrations grant rights, with passwords. Development only.
CREATE ROLE citewire_corpus LOGIN PASSWORD 'dev-only';
CREATE ROLE citewire_worker LOGIN PASSWORD 'dev-only';
CREATE ROLE citewire_chat LOGIN PASSWORD 'dev-only';
CREATE ROLE citewire_ledger LOGIN PASSWORD 'dev-only';
