#!/bin/sh
# Run once by the Postgres image, on a new volume: the owner, our roles, and the database with its extension. The
# migrations would make the roles, but without a password, and here every connection needs one.
set -eu

psql --username "$POSTGRES_USER" --dbname postgres --quiet --set=ON_ERROR_STOP=1 --set=password="$POSTGRES_PASSWORD" <<'SQL'
CREATE ROLE citewire_owner LOGIN NOSUPERUSER NOCREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE ROLE citewire_corpus LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE ROLE citewire_worker LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE ROLE citewire_chat LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE ROLE citewire_ledger LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
GRANT citewire_corpus, citewire_worker, citewire_chat, citewire_ledger TO citewire_owner WITH ADMIN OPTION;
CREATE DATABASE citewire OWNER citewire_owner TEMPLATE template0 ENCODING 'UTF8'
  LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C';
\connect citewire
CREATE EXTENSION vector;
SQL
