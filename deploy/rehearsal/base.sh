#!/usr/bin/env bash
# Makes a base for the images out of Debian's packages, for machines that reach no image registry: a Debian with Python
# and nothing that compiles. Needs root, debootstrap and buildah; the mirror is the one that apt uses here.
#
#   deploy/rehearsal/base.sh [TAG]      default: localhost/citewire-base:latest
set -euo pipefail

tag="${1:-localhost/citewire-base:latest}"
. /etc/os-release
suite="${CITEWIRE_BASE_SUITE:-$VERSION_CODENAME}"
[ "$(id -u)" -eq 0 ] || { echo "base.sh: debootstrap needs root" >&2; exit 1; }
for program in debootstrap buildah; do
  command -v "$program" >/dev/null || { echo "base.sh: $program is missing (Debian: apt-get install $program)" >&2; exit 1; }
done

mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | head -n 1)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
root="$work/root"
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,tzdata "$suite" "$root" "$mirror" \
  >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }

# What only an installed machine needs; the list of packages stays, for scanners.
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/usr/share/doc/* \
  "$root"/usr/share/man/* "$root"/usr/share/locale/* "$root"/usr/share/info/*

container="$(buildah from scratch)"
trap 'buildah rm "$container" >/dev/null; rm -rf "$work"' EXIT
buildah add --quiet "$container" "$root" / >/dev/null
buildah config --env PATH=/usr/local/bin:/usr/bin:/bin --label "org.opencontainers.image.title=citewire-base" "$container"
buildah commit --quiet "$container" "$tag" >/dev/null
echo "$tag"
