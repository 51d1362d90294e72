#!/bin/sh
# Postgres's archive_command: `archive.sh "%p" "%f" FOLDER` copies a finished file of the log into FOLDER/wal.
# It fails until the file lies there whole, and Postgres calls it again. One that lies there already, as after a crash,
# must be the same.
set -eu
path="$1" file="$2" folder="$3/wal"

if [ -e "$folder/$file" ]; then
  exec cmp -s "$path" "$folder/$file"
fi
mkdir -p "$folder"
cp "$path" "$folder/.$file.part"
sync "$folder/.$file.part"
mv "$folder/.$file.part" "$folder/$file"
sync "$folder"
