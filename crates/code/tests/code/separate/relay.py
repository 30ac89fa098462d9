"""Runs tests and a program in two processes, and relays their messages as the host does.

relay.py HARNESS PROGRAM TESTS    prints the report of the tests
relay.py HARNESS --cheats         prints the number of passed tests of each cheat, and of the honest program
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

harness = sys.argv[1]
separate = os.path.join(harness, "separate")
MAX_MESSAGE = 16 << 20


def start(arguments, connection, given):
    def connect():
        os.dup2(connection.fileno(), 3)

    process = subprocess.Popen(
        arguments,
        preexec_fn=connect,
        pass_fds=[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    connection.close()
    process.stdin.write(given)
    process.stdin.close()
    process.stdin = None
    return process


def receive(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def relay(source, target, reports):
    """Passes messages on. Messages of the judge that are reports are kept; the program cannot send one."""
    try:
        while True:
            size = receive(source, 4)
            if int.from_bytes(size, "big") > MAX_MESSAGE:
                break
            message = receive(source, int.from_bytes(size, "big"))
            if reports is not None and message[:1] == b"R":
                reports.append(json.loads(message[1:]))
            else:
                target.sendall(size + message)
    except (EOFError, OSError):
        pass
    try:
        # The other process is told, and can still send its report.
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


# By language: the interpreter, the ending of files, the harness, and the script that runs the program.
LANGUAGES = {
    "python": ([sys.executable, "-B"], "py", "python.py", "assize_program.py"),
    "javascript": (["node"], "js", "javascript.js", "program.js"),
}


def run(program, tests, language):
    interpreter, ending, judge_file, program_file = LANGUAGES[language]
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "code." + ending)
        with open(code, "w") as file:
            file.write(program)
        judge_path = os.path.join(folder, "harness." + ending)
        with open(os.path.join(harness, judge_file)) as source, open(judge_path, "w") as file:
            file.write(source.read().replace("/tmp/code." + ending, code))
        to_judge, of_judge = socket.socketpair()
        to_program, of_program = socket.socketpair()
        todo = json.dumps({"record": "nonce", "tests": tests, "separate": separate}).encode()
        process = start([*interpreter, os.path.join(separate, program_file)], of_program, b"")
        judge = start([*interpreter, judge_path], of_judge, todo)
        reports = []
        from_judge = threading.Thread(target=relay, args=(to_judge, to_program, reports), daemon=True)
        from_judge.start()
        threading.Thread(target=relay, args=(to_program, to_judge, None), daemon=True).start()
        try:
            output, _ = judge.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            judge.kill()
            output, _ = judge.communicate()
        # The report may still be on its way.
        from_judge.join()
        process.kill()
        process.communicate()
        report = reports[0] if len(reports) == 1 and reports[0]["nonce"] == "nonce" else None
        return report, output.decode()


def passed(program, tests, language):
    report, _ = run(program, tests, language)
    return report["passed"] if report and not report["failed"] else 0


if sys.argv[2] == "--cheats":
    language = sys.argv[3]
    corpus = __import__("cheats_" + language)
    everything = dict(corpus.CHEATS, honest=corpus.HONEST)
    with ThreadPoolExecutor(4) as pool:
        counts = pool.map(lambda program: passed(program, corpus.TESTS, language), everything.values())
        print(json.dumps(dict(zip(everything, counts))))
else:
    program, tests = [open(path).read() for path in sys.argv[2:4]]
    report, output = run(program, tests, "javascript" if sys.argv[2].endswith(".js") else "python")
    sys.stderr.write(output)
    print(json.dumps(report))
