"""Tests the MCP servers of assize with the official Python client of MCP, over stdio and over HTTP.

Goes through the whole draft cycle (initialize, list, request, write, read, submit, rejected, resubmit, accepted) and runs
code. The client library checks every result against the output schema of the tool.

    python official_client.py PATH_OF_ASSIZE
"""

import asyncio
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import urllib.request

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.exceptions import MCPError

from serving import serving

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

    initialized = await session.initialize()
    assert initialized.server_info.name == "assize", initialized
    assert "drafts" in initialized.instructions, initialized

    listed = await session.list_tools()
    names = [tool.name for tool in listed.tools]
    assert names == [
        "ollama_request_draft",
        "ollama_write_draft",
        "ollama_read_draft",
        "ollama_submit_draft",
    ], names

    requested = await call("ollama_request_draft", source_path=FILE, task_id=TASK)
    draft = requested["draft_path"]
    assert draft == f"_handoff/drafts/watchdog.py.{TASK}.draft", requested
    assert requested["original_hash"] == sha256(BEFORE), requested
    assert requested["line_count"] == 11, requested

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

    assert "contains `..`" in await refused("ollama_request_draft", source_path="../x", task_id=TASK)
    assert "invalid task id" in await refused("ollama_request_draft", source_path="a", task_id="a/b")
    return len(names)


def project(home, name):
    folder = pathlib.Path(home) / name
    (folder / "src").mkdir(parents=True)
    (folder / FILE).write_text(BEFORE)
    return folder


# PNG image of one pixel, encoded as base64.
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


async def code(session):
    await session.initialize()
    listed = await session.list_tools()
    assert [tool.name for tool in listed.tools] == ["run_code"], listed
    ran = await session.call_tool("run_code", {"code": "print(6 * 7)"})
    assert ran.structured_content["stdout"] == "42\n", ran
    assert ran.structured_content["success"] is True, ran
    # The tool returns the files that the program wrote: an image as image content, and text as a resource. A file above
    # the size limit is not returned.
    leaves = (
        "import base64\n"
        f"open('dot.png', 'wb').write(base64.b64decode('{PNG}'))\n"
        "open('table.csv', 'w').write('x,y\\n1,2\\n')\n"
        "open('big.bin', 'wb').write(bytes(2 << 20))\n"
    )
    left = await session.call_tool("run_code", {"code": leaves, "files": [{"name": "given.txt", "text": "x"}]})
    assert left.structured_content["success"], left
    names = [file["name"] for file in left.structured_content["files"]]
    assert names == ["dot.png", "table.csv"], left.structured_content
    image, table = left.content[1:]
    assert (image.type, image.mime_type, image.data) == ("image", "image/png", PNG), image
    assert table.resource.text == "x,y\n1,2\n" and table.resource.mime_type == "text/csv", table
    assert "big.bin" in left.structured_content["files_left_out"][0], left.structured_content
    failed = await session.call_tool("run_code", {"code": "exit 3", "language": "bash"})
    assert not failed.is_error and failed.structured_content["exit_code"] == 3, failed
    refused = await session.call_tool("run_code", {"code": ""})
    assert refused.is_error and "empty" in refused.content[0].text, refused
    try:
        other = await session.call_tool("ollama_request_draft", {"source_path": FILE, "task_id": TASK})
        raise AssertionError(other)
    except MCPError as error:
        assert error.error.code == -32602, error


async def over_stdio(assize, environment, arguments, use):
    server = StdioServerParameters(command=assize, args=["mcp", *arguments], env=environment)
    async with stdio_client(server) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            return await use(session)


async def over_http(address, token, scope, use):
    request = urllib.request.Request(
        address + "/api/tokens",
        data=json.dumps({"scope": scope}).encode(),
        headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        made = json.load(answer)
    client = create_mcp_http_client(headers={"Authorization": "Bearer " + made["token"]})
    async with client, streamable_http_client(address + made["path"], http_client=client) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            return await use(session)


async def main(assize):
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        folder = project(home, "project")
        arguments = ["--workspace", str(folder)]
        tools = await over_stdio(assize, environment, arguments, lambda session: cycle(session, folder))
        await over_stdio(assize, environment, ["--tools", "code"], code)
        folder = project(home, "served")
        with serving(assize, home, "--root", f"served={folder}") as server:
            token = pathlib.Path(server["token_file"]).read_text().strip()
            await over_http(server["address"], token, "drafts/served", lambda session: cycle(session, folder))
            await over_http(server["address"], token, "code", code)
    print(f"official MCP client: {tools} draft tools (with one rejection and one acceptance) and run_code passed,")
    print("over stdio and over HTTP; every result matched the output schema of its tool")


asyncio.run(main(os.path.abspath(sys.argv[1])))
