"""Many clients of E2B's Python SDK at once, over and over for a time or, without one, once each: python work.py CLIENTS [SECONDS [SEED]].

Each creates a sandbox, runs a command in it, writes, reads and removes a file of its own in /tmp, which fake machines share, and kills it; with a seed the
work has another order for each, and other lengths. A line of JSON is printed for each call: {"call", "error", "documented",
"why", "seconds"}; what the SDK documents are its own exceptions. A sandbox whose creation succeeded and that couldn't be killed is killed by its timeout.
"""
import asyncio
import json
import os
import random
import sys
import time

import e2b
from e2b import AsyncSandbox

CLIENTS = int(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 0  # of what each client does in which order, and how much
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
    works = [command, file]
    length = 1
    if SEED:
        dice = random.Random(f"{SEED} {n}")
        dice.shuffle(works)
        length = dice.choice([1, 1000, 200_000])
    for work in works:
        await work(s, n, length)
    await call("kill", lambda: s.kill())


async def command(s, n, length):
    out, ok = await call("run", lambda: s.commands.run(f"echo {n}; head -c {length} /dev/zero | tr '\\0' x", timeout=120, cwd="/tmp"))
    assert not ok or out.stdout == f"{n}\n" + length * "x", (len(out.stdout), length)


async def file(s, n, length):
    path, data = f"/tmp/e2b-work-{os.getpid()}-{n}.txt", str(n) * length
    _, ok = await call("write", lambda: s.files.write(path, data))
    if ok:
        text, ok = await call("read", lambda: s.files.read(path))
        assert not ok or text == data, (len(text), len(data))
    await call("remove", lambda: s.files.remove(path))


async def client(n, until):
    while True:
        await round_(n)
        if time.monotonic() >= until:
            return


async def main():
    until = time.monotonic() + SECONDS
    await asyncio.gather(*(client(n, until) for n in range(CLIENTS)))


asyncio.run(main())
