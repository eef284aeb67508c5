"""Many clients of E2B's Python SDK at once, over and over for a time or, without one, once each: python work.py CLIENTS [SECONDS].

Each creates a sandbox, runs a command in it, writes, reads and removes a file of its own in /tmp, which fake machines share, and kills it. A line of JSON is printed for each call: {"call", "error", "documented",
"why", "seconds"}; what the SDK documents are its own exceptions. A sandbox whose creation succeeded and that couldn't be killed is killed by its timeout.
"""
import asyncio
import json
import os
import sys
import time

import e2b
from e2b import AsyncSandbox

CLIENTS = int(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0
OWN = tuple(x for x in vars(e2b).values() if isinstance(x, type) and issubclass(x, Exception))


async def call(name, f):
    began = time.monotonic()
    out, error, documented, why = None, "", True, ""
    try:
        out = await asyncio.wait_for(f(), 300)
    except Exception as e:
        error, documented, why = type(e).__name__, isinstance(e, OWN), str(e)[:300]
    print(json.dumps({"call": name, "error": error, "documented": documented, "why": why, "seconds": round(time.monotonic() - began, 3)}), flush=True)
    return out, error == ""


async def round_(n):
    s, ok = await call("create", lambda: AsyncSandbox.create(timeout=300, metadata={"work": str(n)}))
    if not ok:
        return
    out, ok = await call("run", lambda: s.commands.run(f"echo {n}", timeout=120, cwd="/tmp"))
    if ok:
        assert out.stdout == f"{n}\n", out
    path = f"/tmp/e2b-work-{os.getpid()}-{n}.txt"
    _, ok = await call("write", lambda: s.files.write(path, str(n)))
    if ok:
        text, ok = await call("read", lambda: s.files.read(path))
        assert not ok or text == str(n), text
    await call("remove", lambda: s.files.remove(path))
    await call("kill", lambda: s.kill())


async def client(n, until):
    while True:
        await round_(n)
        if time.monotonic() >= until:
            return


async def main():
    until = time.monotonic() + SECONDS
    await asyncio.gather(*(client(n, until) for n in range(CLIENTS)))


asyncio.run(main())
