"""Starts `assize serve` for the tests that drive it with clients of others."""

import contextlib
import json
import os
import subprocess


@contextlib.contextmanager
def serving(assize, home, *arguments):
    """A server on a free port; gives what it printed: `address`, `token_file`."""
    command = [assize, "serve", "--json", "--listen", "127.0.0.1:0", *arguments]
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    server = subprocess.Popen(command, env=environment, cwd=home, stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        while not said.endswith("}\n"):
            line = server.stdout.readline()
            assert line, "the server ended: " + said
            said += line
        yield json.loads(said)
        assert server.poll() is None, f"the server ended with {server.returncode}"
    finally:
        server.kill()
        server.wait()
