#!/usr/bin/env python3
"""Packs a root file system and the binary as a container image that `docker load` and `podman load` read.

usage: image.py ROOTFS.tar BINARY ARCHITECTURE NAME:TAG IMAGE.tar   (ARCHITECTURE: x86_64 or aarch64)

SOURCE_DATE_EPOCH is the time of the files and of the image. The same input always gives the same bytes.
"""

import hashlib
import io
import json
import os
import sys
import tarfile
import time
from pathlib import Path

# The user of the image has no entry in /etc/passwd of the base system, and owns only its home folder.
USER = 10001
NODE_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


def added(path: str, mode: int, owner: int = 0, content: "bytes | None" = None) -> "tuple[tarfile.TarInfo, bytes]":
    entry = tarfile.TarInfo(path)
    entry.mode, entry.uid, entry.gid, entry.mtime = mode, owner, owner, int(os.environ["SOURCE_DATE_EPOCH"])
    entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    entry.size = len(content or b"")
    return entry, content or b""


def layer(entries: "list[tuple[tarfile.TarInfo, bytes]]") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def main() -> None:
    rootfs, binary, architecture, tag, target = sys.argv[1:]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    marker = b"Installed as a container image.\n"
    own = layer(
        [
            added("usr/local/bin/assize", 0o755, content=Path(binary).read_bytes()),
            added("usr/share/assize", 0o755),
            added("usr/share/assize/container-image", 0o644, content=marker),
            added("home/assize", 0o755, owner=USER),
        ]
    )
    layers = [Path(rootfs).read_bytes(), own]
    digests = [hashlib.sha256(packed).hexdigest() for packed in layers]
    config = {
        "architecture": NODE_NAMES[architecture],
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/assize"],
            "Entrypoint": ["assize"],
            "WorkingDir": "/home/assize",
            "ExposedPorts": {"8080/tcp": {}},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        "history": [{"created": created, "created_by": "mmdebstrap"}, {"created": created, "created_by": "assize"}],
    }
    described = json.dumps(config).encode()
    name = f"{hashlib.sha256(described).hexdigest()}.json"
    names = [f"{digest}/layer.tar" for digest in digests]
    manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": names}]).encode()
    files = [(name, described), *zip(names, layers), ("manifest.json", manifest)]
    Path(target).write_bytes(layer([added(path, 0o644, content=content) for path, content in files]))
    print(target)


main()
