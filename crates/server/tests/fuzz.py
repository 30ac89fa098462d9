"""Starts a server with some runs, drafts and sandboxes, and fuzzes every route of its API with schemathesis.

    python fuzz.py PATH_OF_ASSIZE PATH_OF_SCHEMATHESIS EXAMPLES
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

ASSIZE, SCHEMATHESIS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
EXAMPLES = sys.argv[3]
# Operations that may respond with 422 to a request that matches their schema, each with the reason.
MAY_REFUSE = {
    "POST /api/runs": "some texts have a syntax that the schema cannot express (personas, problems, patterns), and "
    "some fields cannot be combined",
    "POST /api/estimates": "as for POST /api/runs; and the cost of code, work and eval runs cannot be estimated",
    "POST /api/runs/{id}/fork": "the fields that apply depend on the kind of the run",
    "POST /api/exec": "whether an image can be used depends on the sandbox backends of the machine",
    "POST /api/sandboxes": "as for POST /api/exec",
    "POST /api/sandboxes/{sandbox}/exec": "whether a program can be started depends on the files of the sandbox",
    "PUT /api/sandboxes/{sandbox}/files": "whether a path can be written depends on the files of the sandbox",
    "GET /api/sandboxes/{sandbox}/files": "whether a path names a file depends on the files of the sandbox",
    "GET /api/sandboxes/{sandbox}/folder": "whether a path names a folder depends on the files of the sandbox",
    "GET /api/workspaces/{workspace}/audit/verify": "the value of `since` has a syntax that the schema cannot express",
}
# Operations that may respond with 503, because the machine lacks the requested sandbox backend.
MAY_BE_UNAVAILABLE = ["POST /api/exec", "POST /api/sandboxes"]


def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESS + path, data=data, method=method)
    request.add_header("Authorization", "Bearer " + TOKEN)
    if data is not None:
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def done(body):
    """Starts a run, waits until its event stream ends, which happens when the run ends, and returns the run's id."""
    run = json.loads(ask("POST", "/api/runs", body))["id"]
    ask("GET", f"/api/runs/{run}/events")
    return run


with tempfile.TemporaryDirectory() as folder:
    home = pathlib.Path(folder)
    (home / "ws").mkdir()
    (home / "ws/watchdog.py").write_text('import sys\n\n\ndef main():\n    print("watching")\n    return 0\n\n\nmain()\n')
    environment = {
        "HOME": folder,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "ASSIZE_PROVIDER": "rehearsal",
        "ASSIZE_SERVE_STARTS_PER_MINUTE": "100000",
        "ASSIZE_SERVE_MAX_RUNNING": "1000",
        "ASSIZE_DRAFT_REVIEW": "always",
    }
    server = subprocess.Popen(
        [ASSIZE, "serve", "--json", "--listen", "127.0.0.1:0", "--root", "ws=ws"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        output = ""
        while not output.endswith("}\n"):
            line = server.stdout.readline()
            assert line, "the server ended before it was ready; its output: " + output
            output += line
        info = json.loads(output)
        ADDRESS, TOKEN = info["address"], pathlib.Path(info["token_file"]).read_text().strip()
        consult = done({"kind": "consult", "ticker": "NVDA", "rounds": 1, "moves": 1})
        done({"kind": "run", "task": "Calculate fibonacci(10)", "session": "kept"})
        done({"kind": "work", "workspace": "ws", "task": "Add --version flag to watchdog.py"})
        submission = json.loads(ask("GET", "/api/workspaces/ws/submissions"))["submissions"][0]["id"]
        ask("POST", "/api/sandboxes", {"name": "box"})
        settings = home / "schemathesis.toml"
        settings.write_text(
            # An event stream may never end, so schemathesis reads only the first event.
            "max-stream-events = 1\n"
            f'[parameters]\n"path.id" = "{consult}"\n"path.workspace" = "ws"\n"path.submission" = "{submission}"\n'
            '"path.document" = "F1.md"\n"path.sandbox" = "box"\n"path.session" = "kept"\n'
            '"path.artifact" = "facts.txt"\n'
            + "".join(
                f'[[operations]]\ninclude-name = "{name}"\n'
                'checks.positive_data_acceptance.expected-statuses = '
                '["2xx", "3xx", 401, 402, 403, 404, 409, 422, 429, "5xx"]\n'
                + (
                    'checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]\n'
                    if name in MAY_BE_UNAVAILABLE
                    else ""
                )
                for name in MAY_REFUSE
            )
        )
        command = [
            SCHEMATHESIS,
            "--config-file",
            str(settings),
            "run",
            ADDRESS + "/api/openapi.json",
            "--header",
            "Authorization: Bearer " + TOKEN,
            "--max-examples",
            EXAMPLES,
            "--request-timeout",
            "60",
            "--checks",
            "all",
            "--continue-on-failure",
            "--no-color",
        ]
        if os.environ.get("PROPTEST_RNG_SEED"):
            command += ["--seed", os.environ["PROPTEST_RNG_SEED"]]
        tried = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert server.poll() is None, f"the server ended during the test with exit code {server.returncode}"
        lines = tried.stdout.splitlines()
        start = next((i for i, line in enumerate(lines) if "SUMMARY" in line), 0)
        print("\n".join(lines if tried.returncode else lines[start:]))
        sys.exit(tried.returncode)
    finally:
        server.kill()
        server.wait()
