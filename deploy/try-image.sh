#!/bin/sh
# Builds the image and runs it, as root, where no registry can be reached and crun does not work.
#
#   apt-get install podman buildah runc debootstrap
#   sh deploy/try-image.sh [FOLDER]
#
# In place of python:3.11-slim-bookworm from a registry, the base is Debian's bookworm, which has the same
# Python. Packages are downloaded on this host, and pip in the build looks nowhere else. `buildah` builds in a
# chroot. With the limits on files and processes given, runc sets none above those of the host.
set -eu
umask 022
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-out/image}")
python=${PYTHON:-python3.11}
base=docker.io/library/python:3.11-slim-bookworm
mkdir -p "$folder/wheels"
stored="--storage-driver vfs --root $folder/store --runroot $folder/run"
build() { buildah $stored "$@"; }
run() {
    podman $stored --cgroup-manager cgroupfs --runtime runc run --rm --network host \
        --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@"
}

if [ ! -e "$folder/base/usr/bin/python" ]; then
    debootstrap --variant=minbase --include=python3,python3-pip,python3-venv bookworm "$folder/base"
    ln -s python3 "$folder/base/usr/bin/python"
    rm -f "$folder/base/usr/lib/python3.11/EXTERNALLY-MANAGED"
fi
printf '[global]\nno-index = true\nfind-links = /wheels\nbreak-system-packages = true\n' > "$folder/pip.conf"
needed=$($python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"])')
$python -m pip download --quiet --only-binary :all: --constraint constraints.txt --dest "$folder/wheels" \
    hatchling pip $needed

made=$(build from scratch)
build copy --quiet "$made" "$folder/base" / > "$folder/log"
build commit --quiet "$made" "$base" >> "$folder/log"
build rm "$made" >> "$folder/log"
build build --isolation chroot --pull-never --network host --tag tacit --file deploy/Dockerfile \
    --volume "$folder/wheels:/wheels:ro" --volume "$folder/pip.conf:/etc/pip.conf:ro" .

run tacit --version
run --entrypoint id tacit -un
run tacit hub new hub --address wss://localhost:7447
