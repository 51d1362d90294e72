-- The superuser runs this at every start of the local stack; repeating it changes nothing.
SET client_min_messages = warning;

-- This role owns the database, runs the migrations and creates the application roles. It isn't a superuser, so that
-- row-level security applies to it and to the functions it owns, as in production.
SELECT 'CREATE ROLE citewire_owner LOGIN NOSUPERUSER NOCREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'citewire_owner')
\gexec

SELECT 'CREATE DATABASE citewire OWNER citewire_owner'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = 'citewire')
\gexec

\connect citewire
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS vector;
ALTER EXTENSION vector UPDATE;
