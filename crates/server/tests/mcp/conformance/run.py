"""Runs the MCP conformance tests against both MCP endpoints of a server, and compares the result with the expected
failures.

    python run.py PATH_OF_ASSIZE PATH_OF_NODE FOLDER_OF_THE_TESTS

Fails if a scenario fails unexpectedly, if a scenario passes that is expected to fail, or if an expected failure has no
reason.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from serving import serving

ASSIZE, NODE, TESTS = (os.path.abspath(argument) for argument in sys.argv[1:4])
HERE = pathlib.Path(__file__).parent.resolve()
# Pairs of a version of the conformance tests and a version of the MCP protocol that they use.
RUNS = [("0.1", "2025-11-25"), ("0.2", "2025-11-25"), ("0.2", "2026-07-28")]


def expected(path):
    """Counts the scenarios in the file that are expected to fail. Each line must have a comment with the reason."""
    entries = [line for line in path.read_text().splitlines() if line.lstrip().startswith("- ")]
    bare = [line for line in entries if not re.search(r"\S\s+# \S", line)]
    assert not bare, f"{path.name}: these expected failures have no comment with the reason: {bare}"
    return len(entries)


def run(url, version, protocol, failures, folder):
    command = [NODE, f"{TESTS}/node_modules/conformance-{version}/dist/index.js", "server", "--url", url]
    command += ["--suite", "all", "--spec-version", protocol]
    command += ["--expected-failures", str(failures), "--output-dir", str(folder / "results")]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


failed = False
with tempfile.TemporaryDirectory() as home:
    home = pathlib.Path(home)
    workspace = home / "served"
    workspace.mkdir()
    with serving(ASSIZE, home, "--no-auth", "--root", f"served={workspace}") as server:
        for version, protocol in RUNS:
            failures = HERE / f"expected-{version}-{protocol}.yaml"
            count = expected(failures)
            for endpoint in ["/mcp/drafts/served", "/mcp/code"]:
                ran = run(server["address"] + endpoint, version, protocol, failures, home)
                print(f"{endpoint}: conformance tests {version}, protocol {protocol}: ", end="")
                total = re.findall(r"Total: (\d+) passed, (\d+) failed", ran.stdout)
                if ran.returncode:
                    failed = True
                    print(f"exit code {ran.returncode}\n{ran.stdout}")
                else:
                    print(f"{total[-1][0]} checks passed, {total[-1][1]} failed; {count} scenarios are expected to fail")
sys.exit(failed)
