"""A client that we did not write drives the whole cycle: initialise, list, request, write, read, submit,
rejected, again, accepted. It checks every answer against the schema that the tool promises.

    python official_client.py PATH_OF_ASSIZE
"""

import asyncio
import hashlib
import os
import pathlib
import sys
import tempfile

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TASK = "phase10_version_flag"
FILE = "src/watchdog.py"
BEFORE = """#!/usr/bin/env python3
import sys


def main():
    print("watching")
    return 0


if __name__ == "__main__":
    sys.exit(main())
"""
BAD = BEFORE.replace("import sys\n", 'import sys\n\nLOG = "/home/ann/watchdog.log"\n')
GOOD = BEFORE.replace("import sys\n", 'import sys\n\nVERSION = "1.0"\n')


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


async def cycle(session, folder):
    async def call(tool, **arguments):
        result = await session.call_tool(tool, arguments)
        assert not result.is_error, result
        return result.structured_content

    async def refused(tool, **arguments):
        result = await session.call_tool(tool, arguments)
        assert result.is_error, result
        return result.content[0].text

    hello = await session.initialize()
    assert hello.server_info.name == "assize", hello
    assert "drafts" in hello.instructions, hello

    listed = await session.list_tools()
    names = [tool.name for tool in listed.tools]
    assert names == [
        "ollama_request_draft",
        "ollama_write_draft",
        "ollama_read_draft",
        "ollama_submit_draft",
    ], names

    asked = await call("ollama_request_draft", source_path=FILE, task_id=TASK)
    draft = asked["draft_path"]
    assert draft == f"_handoff/drafts/watchdog.py.{TASK}.draft", asked
    assert asked["original_hash"] == sha256(BEFORE), asked
    assert asked["line_count"] == 11, asked

    written = await call("ollama_write_draft", draft_path=draft, content=BAD)
    assert written["success"] is True and written["new_hash"] == sha256(BAD), written
    read = await call("ollama_read_draft", draft_path=draft)
    assert read["content"] == BAD and read["line_count"] == 13, read

    submit = dict(draft_path=draft, original_path=FILE, task_id=TASK, change_summary="Added a version")
    rejected = await call("ollama_submit_draft", **submit)
    assert rejected["submitted"] is True and rejected["message_id"].startswith("msg_"), rejected
    assert rejected["verdict"] == "rejected", rejected
    reason = rejected["reasons"][0]
    assert (reason["file"], reason["line"]) == (FILE, 4) and reason["what_to_do"], reason
    assert (folder / FILE).read_text() == BEFORE
    assert "ollama_request_draft" in await refused("ollama_read_draft", draft_path=draft)

    await call("ollama_request_draft", source_path=FILE, task_id=TASK)
    await call("ollama_write_draft", draft_path=draft, content=GOOD)
    accepted = await call("ollama_submit_draft", **submit)
    assert accepted["verdict"] == "accepted" and accepted["reasons"] == [], accepted
    assert (folder / FILE).read_text() == GOOD
    assert not (folder / draft).exists()

    assert "leads elsewhere" in await refused("ollama_request_draft", source_path="../x", task_id=TASK)
    assert "no task id" in await refused("ollama_request_draft", source_path="a", task_id="a/b")
    return len(names)


async def main(assize):
    with tempfile.TemporaryDirectory() as home:
        folder = pathlib.Path(home) / "project"
        (folder / "src").mkdir(parents=True)
        (folder / FILE).write_text(BEFORE)
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        server = StdioServerParameters(
            command=assize, args=["mcp", "--workspace", str(folder)], env=environment
        )
        async with stdio_client(server) as (reader, writer):
            async with ClientSession(reader, writer) as session:
                tools = await cycle(session, folder)
    print(f"the official client: {tools} tools, rejected once, accepted, every answer as promised")


asyncio.run(main(os.path.abspath(sys.argv[1])))
