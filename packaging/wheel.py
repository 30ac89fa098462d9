#!/usr/bin/env python3
"""Packs a static binary as a Python wheel. The same binary and version always give the same bytes.

usage: wheel.py BINARY ARCHITECTURE VERSION FOLDER   (ARCHITECTURE: x86_64 or aarch64)

The environment variable ASSIZE_WHEEL_NAME is the name of the distribution (default: assize), and ASSIZE_COMPRESSION the
compression level (1 to 9, default: 9).
"""

import base64
import hashlib
import os
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A static binary needs no C library, so it runs on every Linux that one of these tags names.
TAGS = ["manylinux2014_{0}", "manylinux_2_17_{0}", "musllinux_1_1_{0}"]


def metadata(name: str, version: str) -> str:
    """The wheel's description is the README, without the picture, whose path works only in the repository."""
    readme = (ROOT / "README.md").read_text()
    readme = re.sub(r"^!\[.*\n", "", readme, flags=re.MULTILINE)
    return f"""Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Puts proposals of language models on trial in a sandbox before they take effect
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{readme}"""


def main() -> None:
    binary, architecture, version, folder = sys.argv[1:]
    name = os.environ.get("ASSIZE_WHEEL_NAME", "assize")
    base = f"{re.sub(r'[-_.]+', '_', name)}-{version}"
    tags = [tag.format(architecture) for tag in TAGS]
    info = f"{base}.dist-info"
    wheel = "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    files = {
        f"{base}.data/scripts/assize": (Path(binary).read_bytes(), 0o755),
        f"{info}/METADATA": (metadata(name, version).encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: assize\nRoot-Is-Purelib: false\n{wheel}".encode(), 0o644),
        f"{info}/licenses/LICENSE-APACHE": ((ROOT / "LICENSE-APACHE").read_bytes(), 0o644),
        f"{info}/licenses/LICENSE-MIT": ((ROOT / "LICENSE-MIT").read_bytes(), 0o644),
    }
    record = ""
    for path, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    target = Path(folder) / f"{base}-py3-none-{'.'.join(tags)}.whl"
    level = int(os.environ.get("ASSIZE_COMPRESSION", 9))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for path, (content, mode) in files.items():
            entry = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(target)


main()
