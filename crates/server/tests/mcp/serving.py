"""Starts `assize serve` for tests with third-party MCP clients."""

import contextlib
import json
import os
import subprocess


@contextlib.contextmanager
def serving(assize, home, *arguments):
    """Runs a server on a free port; yields the JSON object that it printed, with `address` and `token_file`."""
    command = [assize, "serve", "--json", "--listen", "127.0.0.1:0", *arguments]
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    server = subprocess.Popen(command, env=environment, cwd=home, stdout=subprocess.PIPE, text=True)
    try:
        output = ""
        while not output.endswith("}\n"):
            line = server.stdout.readline()
            assert line, "the server ended before it was ready; its output: " + output
            output += line
        yield json.loads(output)
        assert server.poll() is None, f"the server ended during the test with exit code {server.returncode}"
    finally:
        server.kill()
        server.wait()
