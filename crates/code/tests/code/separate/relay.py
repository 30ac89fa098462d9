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

harness = sys.argv[1]
separate = os.path.join(harness, "separate")


def start(arguments, connection, given):
    def connect():
        os.dup2(connection.fileno(), 3)

    process = subprocess.Popen(
        [sys.executable, "-B", *arguments],
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
            message = receive(source, int.from_bytes(size, "big"))
            if reports is not None and message[:1] == b"R":
                reports.append(json.loads(message[1:]))
            else:
                target.sendall(size + message)
    except (EOFError, OSError):
        for connection in (source, target):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def run(program, tests):
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "code.py")
        with open(code, "w") as file:
            file.write(program)
        with open(os.path.join(harness, "python.py")) as file:
            judge_code = file.read().replace("/tmp/code.py", code)
        to_judge, of_judge = socket.socketpair()
        to_program, of_program = socket.socketpair()
        todo = json.dumps({"record": "nonce", "tests": tests, "separate": separate}).encode()
        process = start([os.path.join(separate, "assize_program.py")], of_program, b"")
        judge = start(["-c", judge_code], of_judge, todo)
        reports = []
        from_judge = threading.Thread(target=relay, args=(to_judge, to_program, reports), daemon=True)
        from_judge.start()
        threading.Thread(target=relay, args=(to_program, to_judge, None), daemon=True).start()
        try:
            output, _ = judge.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            judge.kill()
            output, _ = judge.communicate()
        # The report may still be on its way.
        from_judge.join()
        process.kill()
        process.communicate()
        report = reports[0] if len(reports) == 1 and reports[0]["nonce"] == "nonce" else None
        return report, output.decode()


def passed(program, tests):
    report, _ = run(program, tests)
    return report["passed"] if report and not report["failed"] else 0


if sys.argv[2] == "--cheats":
    import cheats

    everything = dict(cheats.CHEATS, honest=cheats.HONEST)
    print(json.dumps({name: passed(program, cheats.TESTS) for name, program in everything.items()}))
else:
    program, tests = [open(path).read() for path in sys.argv[2:4]]
    report, output = run(program, tests)
    sys.stderr.write(output)
    print(json.dumps(report))
