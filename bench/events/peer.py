"""Peer server of the benchmark: sends the events of a file at their original pace, with one queue per client.

    python peer.py EVENTS.json

Prints the address that the server listens on. `POST /begin` starts sending the events.
"""

import asyncio
import json
import socket
import sys
import time

import uvicorn
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

with open(sys.argv[1]) as file:
    EVENTS = json.load(file)

queues = []
tasks = []


async def publish():
    first, started = EVENTS[0]["at"], time.time()
    for event in EVENTS:
        wait = started + (event["at"] - first) / 1000 - time.time()
        if wait > 0:
            await asyncio.sleep(wait)
        data = dict(event["payload"], run=event["run"], at=time.time() * 1000)
        message = {"id": str(event["id"]), "event": event["name"], "data": json.dumps(data)}
        for queue in queues:
            queue.put_nowait(message)


async def events(request):
    queue = asyncio.Queue()
    queues.append(queue)

    async def stream():
        yield {"event": "snapshot", "data": "{}"}
        while True:
            yield await queue.get()

    return EventSourceResponse(stream(), sep="\n")


async def begin(request):
    tasks.append(asyncio.create_task(publish()))
    return JSONResponse({})


async def main():
    app = Starlette(routes=[Route("/events", events), Route("/begin", begin, methods=["POST"])])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    print("%s:%d" % listener.getsockname(), flush=True)
    config = uvicorn.Config(app, log_level="error", access_log=False)
    await uvicorn.Server(config).serve(sockets=[listener])


asyncio.run(main())
