#!/bin/sh
# Runs in the build stage of every image. Everything that isn't ours comes from the lock file, with its hashes.
#
#   install.sh uv VERSION            brings uv, into a place that is left behind in the build stage
#   install.sh locked PACKAGE        installs what PACKAGE needs from elsewhere into /app/.venv
#   install.sh some NAME…            installs single packages, in the lock file's versions, into /app/.venv
#   install.sh own PACKAGE FOLDER…   installs our own packages into /app/lib, and writes the bill of materials
#
# Where WITHOUT names a package of the lock file, it is left out. EXTRAS names extras of PACKAGE that come along ("s3 sftp").
# Two places, so that a new version of our code is a small layer over the large one of the libraries.
# Where the network wants it, mount secrets: `ca` (certificates, PEM) and `network` (variables such as UV_DEFAULT_INDEX
# and PIP_INDEX_URL, as shell assignments). Neither stays in a layer.
set -eu

if [ -s /run/secrets/ca ]; then
  export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca
fi
if [ -s /run/secrets/network ]; then
  set -a
  . /run/secrets/network
  set +a
fi
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_NO_CACHE=1 UV_PYTHON=python3
export UV_PROJECT_ENVIRONMENT=/app/.venv
uv=/opt/uv/bin/uv

extras="$(printf '%s' "${EXTRAS:-}" | sed -E 's/([^ ]+)/--extra \1/g')"

step="$1"
shift
case "$step" in
  uv)
    python3 -m venv /opt/uv
    /opt/uv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir "uv==$1"
    ;;
  locked)
    $uv sync --frozen --no-dev --no-install-workspace --package "$1" $extras ${WITHOUT:+--no-install-package "$WITHOUT"}
    # Every process finds our own packages by this line.
    site="$(/app/.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
    echo /app/lib > "$site/citewire.pth"
    ;;
  some)
    # Single packages in the lock file's versions, for what isn't a service of ours.
    $uv venv --quiet /app/.venv
    $uv export --quiet --frozen --no-dev --no-hashes --no-emit-workspace --package citewire-cli > /tmp/locked.txt
    $uv export --quiet --frozen --no-dev --no-hashes --no-emit-workspace --package citewire-generator >> /tmp/locked.txt
    sort -u /tmp/locked.txt -o /tmp/locked.txt
    $uv pip install --quiet --python /app/.venv/bin/python --constraint /tmp/locked.txt "$@"
    ;;
  own)
    package="$1"
    shift
    # Their own needs are installed already: nothing is resolved here. Hatchling builds them, and stays behind.
    $uv pip install --quiet --no-deps --target /app/lib "$@"
    mkdir -p /app/share/sbom
    $uv export --quiet --frozen --no-dev --package "$package" $extras ${WITHOUT:+--no-emit-package "$WITHOUT"} \
      --format cyclonedx1.5 > "/app/share/sbom/$package.cdx.json"
    ;;
  *)
    echo "install.sh: no such step: $step" >&2
    exit 2
    ;;
esac
