#!/usr/bin/env python3
"""Packs static binaries as npm packages: one for each architecture, and one that selects the right one.

usage: npm.py VERSION FOLDER ARCHITECTURE=BINARY...   (ARCHITECTURE: x86_64 or aarch64)

ASSIZE_NPM_NAME is the name of the main package (default: assize), ASSIZE_NPM_SCOPE the scope of the packages with the
binaries (default: @assize), and ASSIZE_COMPRESSION the compression level (1 to 9, default: 9). The same binaries and
version always give the same bytes.
"""

import gzip
import io
import json
import os
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE_NAMES = {"x86_64": "x64", "aarch64": "arm64"}


def pack(target: Path, files: "dict[str, tuple[bytes, int]]") -> None:
    """Writes a package archive, without times and owners that differ between builds."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(f"package/{path}")
            # npm's own value: zip files cannot store earlier times.
            entry.size, entry.mode, entry.mtime = len(content), mode, 499162500
            archive.addfile(entry, io.BytesIO(content))
    target.write_bytes(gzip.compress(packed.getvalue(), int(os.environ.get("ASSIZE_COMPRESSION", 9)), mtime=0))
    print(target)


def main() -> None:
    version, folder, *binaries = sys.argv[1:]
    name = os.environ.get("ASSIZE_NPM_NAME", "assize")
    scope = os.environ.get("ASSIZE_NPM_SCOPE", "@assize")
    licenses = {file: ((ROOT / file).read_bytes(), 0o644) for file in ["LICENSE-APACHE", "LICENSE-MIT"]}
    shared = {"version": version, "license": "(MIT OR Apache-2.0)", "os": ["linux"]}

    def described(values: "dict[str, object]") -> "tuple[bytes, int]":
        return (json.dumps({**values, **shared}, indent=2) + "\n").encode(), 0o644

    optional = {}
    for pair in binaries:
        architecture, binary = pair.split("=", 1)
        node_name = NODE_NAMES[architecture]
        package = f"{scope}/linux-{node_name}"
        optional[package] = version
        values = {"name": package, "description": f"The assize binary for Linux on {node_name}", "cpu": [node_name]}
        files = {
            "package.json": described({**values, "preferUnplugged": True}),
            "bin/assize": (Path(binary).read_bytes(), 0o755),
            **licenses,
        }
        pack(Path(folder) / f"{scope.lstrip('@')}-linux-{node_name}-{version}.tgz", files)
    values = {
        "name": name,
        "description": "Puts proposals of language models on trial in a sandbox before they take effect",
        "bin": {"assize": "bin/assize.js"},
        "engines": {"node": ">=18"},
        "optionalDependencies": optional,
    }
    starter = (ROOT / "packaging/npm/assize.js").read_text().replace("SCOPE/", f"{scope}/")
    files = {
        "package.json": described(values),
        "bin/assize.js": (starter.encode(), 0o755),
        "README.md": ((ROOT / "README.md").read_bytes(), 0o644),
        **licenses,
    }
    pack(Path(folder) / f"{name}-{version}.tgz", files)


main()
