"""The methods of E2B's Python SDK against a platform, as a black box: python suite.py sync|async [essential].

Each check names the methods that it is about. A line of JSON is printed for each: {"method", "check", "result": passed|failed|unsupported, "why"}.
The same checks run over both flavours of the SDK: what is a coroutine is awaited.
"""
import asyncio
import inspect
import json
import os
import sys
import time
import traceback
import urllib.error
import urllib.request

import e2b
from e2b import FileType, NotFoundException, SandboxException, TimeoutException
from packaging.version import Version

FLAVOUR = sys.argv[1]
ESSENTIAL = "essential" in sys.argv[2:]
ASYNC = FLAVOUR == "async"
Sandbox = e2b.AsyncSandbox if ASYNC else e2b.Sandbox
Template = e2b.AsyncTemplate if ASYNC else e2b.Template
try:
    from importlib.metadata import version as _version
    VERSION = Version(_version("e2b"))
except Exception:
    VERSION = Version("0")
TEMPLATE = os.environ.get("E2B_SUITE_TEMPLATE", "base")
checks = []


def check(*methods, essential=False, own=False):
    """own: the check gets no sandbox, but makes what it needs."""
    def add(f):
        checks.append((f, methods, essential, own))
        return f
    return add


async def m(x):
    return await x if inspect.isawaitable(x) else x


async def raises(kind, f):
    try:
        await m(f())
    except kind as e:
        return e
    raise AssertionError(f"no {kind} was raised")


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


async def until(what, f, seconds=20):
    end = time.monotonic() + seconds
    while True:
        last = await m(f())
        if last:
            return last
        assert time.monotonic() < end, f"{what} after {seconds} s"
        await asyncio.sleep(0.05)


def new(**kw):
    kw.setdefault("timeout", 600)
    return Sandbox.create(kw.pop("template", TEMPLATE), **kw)


async def collect(pager):
    out = []
    while pager.has_next:
        out += await m(pager.next_items())
    return out


# ---- sandboxes

@check("Sandbox.create", "Sandbox.kill", "Sandbox.is_running", essential=True, own=True)
async def create_and_kill():
    s = await m(new(metadata={"suite": "create"}, envs={"FROM_CREATE": "1"}))
    assert s.sandbox_id.isalnum() and s.sandbox_id.islower(), s.sandbox_id
    assert await m(s.is_running())
    equal((await m(s.commands.run("echo $FROM_CREATE $E2B_SANDBOX $E2B_SANDBOX_ID"))).stdout, f"1 true {s.sandbox_id}\n")
    assert await m(s.kill())
    assert not await m(s.is_running())
    assert not await m(s.kill())
    assert not await m(Sandbox.kill(s.sandbox_id))
    await raises(Exception, lambda: s.commands.run("true"))


@check("Sandbox.kill", essential=True, own=True)
async def kill_of_what_is_not_there():
    assert not await m(Sandbox.kill("nosuchsandbox"))
    assert not await m(Sandbox.kill("a" * 26))


@check("Sandbox.create", essential=True, own=True)
async def create_of_no_template():
    await raises((NotFoundException, SandboxException), lambda: new(template="no-such-template"))


@check("Sandbox.create", essential=True, own=True)
async def a_wrong_key_is_refused():
    await raises(e2b.AuthenticationException, lambda: new(api_key="e2b_" + "0" * 40))


@check("Sandbox.connect", essential=True)
async def connect(s):
    again = await m(Sandbox.connect(s.sandbox_id))
    equal(again.sandbox_id, s.sandbox_id)
    equal((await m(again.commands.run("echo again"))).stdout, "again\n")
    equal(await m(again.files.exists("/etc/hostname")), True)
    third = await m(s.connect())
    equal(third.sandbox_id, s.sandbox_id)


@check("Sandbox.connect", essential=True)
async def connect_never_shortens(s):
    before = (await m(s.get_info())).end_at
    await m(Sandbox.connect(s.sandbox_id, timeout=5))
    equal((await m(s.get_info())).end_at, before)
    await m(Sandbox.connect(s.sandbox_id, timeout=3000))
    assert (await m(s.get_info())).end_at > before


@check("Sandbox.connect", essential=True, own=True)
async def connect_to_what_is_not_there():
    await raises(NotFoundException, lambda: Sandbox.connect("a" * 26))


@check("Sandbox.get_info", essential=True, own=True)
async def info():
    s = await m(new(metadata={"k e": "v&1"}))
    try:
        i = await m(s.get_info())
        equal(i.sandbox_id, s.sandbox_id)
        equal(i.metadata, {"k e": "v&1"})
        equal(i.state.value if hasattr(i.state, "value") else i.state, "running")
        assert i.cpu_count >= 1 and i.memory_mb >= 96
        assert 500 < (i.end_at - i.started_at).total_seconds() < 700
        equal((await m(Sandbox.get_info(s.sandbox_id))).sandbox_id, s.sandbox_id)
    finally:
        await m(s.kill())
    await raises(NotFoundException, lambda: s.get_info())


@check("Sandbox.list", essential=True, own=True)
async def list_pages_and_filters():
    tag = os.urandom(6).hex()
    made = [await m(new(metadata={"suite": tag, "odd name": f"v&{n % 2}"})) for n in range(3)]
    try:
        query = e2b.SandboxQuery(metadata={"suite": tag})
        equal({i.sandbox_id for i in await collect(Sandbox.list(query=query))}, {s.sandbox_id for s in made})
        pager = Sandbox.list(query=query, limit=2)
        first = await m(pager.next_items())
        equal(len(first), 2)
        assert pager.has_next and pager.next_token
        rest = await m(Sandbox.list(query=query, limit=2, next_token=pager.next_token).next_items())
        equal({i.sandbox_id for i in first + rest}, {s.sandbox_id for s in made})
        equal([i.started_at for i in first + rest], sorted([i.started_at for i in first + rest], reverse=True))
        odd = await collect(Sandbox.list(query=e2b.SandboxQuery(metadata={"suite": tag, "odd name": "v&1"})))
        equal([i.sandbox_id for i in odd], [made[1].sandbox_id])
        equal(odd[0].metadata, {"suite": tag, "odd name": "v&1"})
        state = e2b.SandboxState.RUNNING
        equal(len(await collect(Sandbox.list(query=e2b.SandboxQuery(metadata={"suite": tag}, state=[state])))), 3)
        equal(await collect(Sandbox.list(query=e2b.SandboxQuery(metadata={"suite": tag}, state=[e2b.SandboxState.PAUSED]))), [])
    finally:
        for s in made:
            await m(s.kill())


@check("Sandbox.set_timeout", essential=True, own=True)
async def set_timeout():
    s = await m(new())
    await m(s.set_timeout(100))
    i = await m(s.get_info())
    left = i.end_at.timestamp() - time.time()
    assert 80 < left < 120, left
    await m(s.set_timeout(1))
    await until("it runs", lambda: gone(s))
    await raises(NotFoundException, lambda: s.set_timeout(10))


async def gone(s):
    return not await m(s.is_running())


@check("Sandbox.create", own=True)
async def timeout_over_the_limit():
    await raises(SandboxException, lambda: new(timeout=10 ** 9))


@check("Sandbox.get_metrics", own=False)
async def metrics(s):
    all_ = await until("no metrics", lambda: s.get_metrics())
    one = all_[-1]
    assert one.cpu_count >= 1 and one.mem_total > one.mem_used > 0 and one.disk_total > one.disk_used > 0, one


# ---- pause, snapshots

@check("Sandbox.pause", "Sandbox.connect", essential=True, own=True)
async def pause_and_connect():
    s = await m(new(metadata={"suite": "pause"}, envs={"KEPT": "yes"}))
    try:
        await m(s.files.write("kept.txt", "kept"))
        h = await m(s.commands.run("sleep 1000", background=True))
        pause = getattr(s, "pause", None) or s.beta_pause
        await m(pause())
        equal((await m(s.get_info())).state.value, "paused")
        assert not await m(s.is_running())
        paused = await collect(Sandbox.list(query=e2b.SandboxQuery(metadata={"suite": "pause"}, state=[e2b.SandboxState.PAUSED])))
        assert s.sandbox_id in [i.sandbox_id for i in paused]
        await m(pause())
        again = await m(s.connect())
        equal(again.sandbox_id, s.sandbox_id)
        equal(await m(s.files.read("kept.txt")), "kept")
        equal((await m(s.commands.run("echo $KEPT"))).stdout, "yes\n")
        assert h.pid in [p.pid for p in await m(s.commands.list())]
        equal((await m(s.get_info())).metadata, {"suite": "pause"})
    finally:
        await m(s.kill())


def takes(f, name):
    """Whether a method of this version of the SDK takes an argument."""
    return name in inspect.signature(f).parameters


class NotInThisVersion(Exception):
    """A check is about what this version of the SDK doesn't have."""


@check("Sandbox.pause(keep_memory)", "Sandbox.connect(on_resume)", own=True)
async def pause_without_memory():
    if not hasattr(Sandbox, "pause") or not takes(Sandbox.pause, "keep_memory"):
        raise NotInThisVersion()
    s = await m(new())
    try:
        await m(s.files.write("kept.txt", "kept"))
        h = await m(s.commands.run("sleep 1000", background=True))
        await m(s.pause(keep_memory=False))
        equal((await m(s.get_info())).state.value, "paused")
        await m(s.connect())
        equal(await m(s.files.read("kept.txt")), "kept")
        assert h.pid not in [p.pid for p in await m(s.commands.list())]
        if not takes(Sandbox.connect, "on_resume"):
            return
        h = await m(s.commands.run("sleep 1001", background=True))
        await m(s.commands.run("sync"))
        await m(s.pause())
        await m(s.connect(on_resume="reboot"))
        equal(await m(s.files.read("kept.txt")), "kept")
        assert "sleep 1001" not in [" ".join(p.args) for p in await m(s.commands.list())], "the memory was restored"
    finally:
        await m(s.kill())


@check("Sandbox.pause(strict)", own=True)
async def strict_pause():
    if not hasattr(Sandbox, "pause") or not takes(Sandbox.pause, "strict"):
        raise NotInThisVersion()
    s = await m(new())
    try:
        await m(s.pause(strict=True))
        equal((await m(s.get_info())).state.value, "paused")
    finally:
        await m(s.kill())


@check("Sandbox.create(idempotency_key)", own=True)
async def create_again():
    if not takes(Sandbox.create, "idempotency_key"):
        raise NotInThisVersion()
    key = "suite-" + os.urandom(6).hex()
    s = await m(new(idempotency_key=key))
    try:
        again = await m(new(idempotency_key=key))
        equal(again.sandbox_id, s.sandbox_id)
        equal((await m(again.commands.run("echo same", cwd="/tmp"))).stdout, "same\n")
    finally:
        await m(s.kill())


@check("Sandbox.create_snapshot(mode)", own=True)
async def snapshot_of_the_disk():
    if not hasattr(Sandbox, "create_snapshot") or not takes(Sandbox.create_snapshot, "mode"):
        raise NotInThisVersion()
    s = await m(new())
    try:
        await m(s.files.write("at.txt", "snapshot"))
        await m(s.commands.run("sleep 1002", background=True))
        snap = await m(s.create_snapshot(mode="filesystem"))
        child = await m(new(template=snap.snapshot_id))
        try:
            equal(await m(child.files.read("at.txt")), "snapshot")
            equal((await m(child.commands.run("pgrep -f 'sleep 100[2]' || echo none"))).stdout, "none\n")
        finally:
            await m(child.kill())
        assert await m(Sandbox.delete_snapshot(snap.snapshot_id))
    finally:
        await m(s.kill())


@check("Sandbox.create(lifecycle)", own=True)
async def auto_pause():
    s = await m(new(timeout=3, lifecycle={"on_timeout": "pause"}))
    try:
        await until("it isn't paused", lambda: is_paused(s))
        await m(s.connect(timeout=60))
        assert await m(s.is_running())
    finally:
        await m(s.kill())


@check("Sandbox.create(auto_resume)", own=True)
async def auto_resume():
    s = await m(new(timeout=3, lifecycle={"on_timeout": "pause", "auto_resume": True}))
    try:
        await m(s.files.write("kept.txt", "kept"))
        await until("it isn't paused", lambda: is_paused(s))
        equal(await m(s.files.read("kept.txt")), "kept")
    finally:
        await m(s.kill())


async def is_paused(s):
    return (await m(s.get_info())).state.value == "paused"


@check("Sandbox.create_snapshot", "Sandbox.list_snapshots", "Sandbox.delete_snapshot", own=True)
async def snapshots():
    s = await m(new())
    children = []
    try:
        await m(s.files.write("at.txt", "snapshot"))
        snap = await m(s.create_snapshot())
        await m(s.files.write("at.txt", "later"))
        children.append(await m(new(template=snap.snapshot_id)))
        equal(await m(children[0].files.read("at.txt")), "snapshot")
        equal(await m(s.files.read("at.txt")), "later")
        assert snap.snapshot_id in [x.snapshot_id for x in await collect(s.list_snapshots())]
        await m(children.pop().kill())
        assert await m(Sandbox.delete_snapshot(snap.snapshot_id))
        assert not await m(Sandbox.delete_snapshot(snap.snapshot_id))
    finally:
        for c in children:
            await m(c.kill())
        await m(s.kill())


@check("Sandbox.fork", own=True)
async def fork():
    s = await m(new())
    children = []
    try:
        await m(s.files.write("at.txt", "fork"))
        forks = await m(s.fork(count=2))
        children = [f if hasattr(f, "files") else f.sandbox for f in forks]
        equal(len({c.sandbox_id for c in children}), 2)
        for c in children:
            equal(await m(c.files.read("at.txt")), "fork")
    finally:
        for c in children:
            await m(c.kill())
        await m(s.kill())


# ---- commands

@check("commands.run", essential=True)
async def run(s):
    r = await m(s.commands.run("echo out; echo err >&2"))
    equal((r.stdout, r.stderr, r.exit_code), ("out\n", "err\n", 0))
    e = await raises(e2b.CommandExitException, lambda: s.commands.run("echo bad; exit 3"))
    equal((e.exit_code, e.stdout), (3, "bad\n"))
    r = await m(s.commands.run("pwd; whoami; echo $HOME $X", cwd="/tmp", envs={"X": "a b"}, user="root"))
    equal(r.stdout, "/tmp\nroot\n/root a b\n")
    equal((await m(s.commands.run("whoami; pwd"))).stdout, "user\n/home/user\n")
    equal((await m(s.commands.run("echo 'ä€𝄞'"))).stdout, "ä€𝄞\n")
    equal((await m(s.commands.run("sudo -n whoami"))).stdout, "root\n")


@check("commands.run", essential=True)
async def run_with_much_output(s):
    r = await m(s.commands.run("head -c 1000000 /dev/zero | tr '\\0' x", timeout=120))
    equal(len(r.stdout), 1000000)


@check("commands.run", essential=True)
async def run_with_callbacks(s):
    out = []
    await m(s.commands.run("echo one; sleep 0.3; echo two", on_stdout=lambda x: out.append(x)))
    equal("".join(str(x) for x in out), "one\ntwo\n")


@check("commands.run(timeout)", essential=True)
async def run_with_a_timeout(s):
    began = time.monotonic()
    await raises(TimeoutException, lambda: s.commands.run("echo $$ >/tmp/late.pid; sleep 100", timeout=2))
    assert time.monotonic() - began < 8
    await raises(TimeoutException, lambda: s.commands.run("while :; do echo x; sleep 0.2; done", timeout=2))
    await until("the command lives", lambda: dead(s, "/tmp/late.pid"))


async def dead(s, file):
    try:
        await m(s.commands.run(f"kill -0 $(cat {file})"))
        return False
    except e2b.CommandExitException:
        return True


@check("commands.run(cwd)", "commands.run(user)")
async def run_where_it_cannot(s):
    await raises(e2b.InvalidArgumentException, lambda: s.commands.run("true", cwd="/no/such/directory"))
    await raises(e2b.InvalidArgumentException, lambda: s.commands.run("true", cwd="no/such/directory"))
    await raises(e2b.AuthenticationException, lambda: s.commands.run("true", user="nosuchuser"))


@check("commands.run(background)", "commands.kill", "commands.list", "CommandHandle.kill", essential=True)
async def background(s):
    h = await m(s.commands.run("sleep 1000", background=True))
    assert h.pid > 0
    found = [p for p in await m(s.commands.list()) if p.pid == h.pid]
    equal(len(found), 1)
    equal((found[0].cmd, list(found[0].args)), ("/bin/bash", ["-l", "-c", "sleep 1000"]))
    assert await m(s.commands.kill(h.pid))
    await raises(e2b.CommandExitException, lambda: h.wait())
    assert h.pid not in [p.pid for p in await m(s.commands.list())]
    assert not await m(s.commands.kill(h.pid))
    assert not await m(s.commands.kill(999999))
    h = await m(s.commands.run("sleep 1000", background=True))
    assert await m(h.kill())


@check("commands.connect", "CommandHandle.wait", "CommandHandle.disconnect", essential=True)
async def connect_to_a_command(s):
    h = await m(s.commands.run("echo early; touch said; read x; echo got $x; exit 4", background=True, stdin=True))
    await until("nothing was said", lambda: s.files.exists("said"))
    again = await m(s.commands.connect(h.pid))
    equal(again.pid, h.pid)
    await m(s.commands.send_stdin(h.pid, "word\n"))
    e = await raises(e2b.CommandExitException, lambda: again.wait())
    equal((e.exit_code, e.stdout), (4, "got word\n"))
    e = await raises(e2b.CommandExitException, lambda: h.wait())
    equal((e.exit_code, e.stdout), (4, "early\ngot word\n"))
    await raises(NotFoundException, lambda: s.commands.connect(999999))
    left = await m(s.commands.run("sleep 1000", background=True))
    await m(left.disconnect())
    assert left.pid in [p.pid for p in await m(s.commands.list())]
    await m(s.commands.kill(left.pid))


@check("commands.send_stdin", essential=True)
async def stdin(s):
    h = await m(s.commands.run("head -n 2", background=True, stdin=True))
    await m(s.commands.send_stdin(h.pid, "one\n"))
    await m(s.commands.send_stdin(h.pid, "two\n"))
    equal((await m(h.wait())).stdout, "one\ntwo\n")
    await raises(SandboxException, lambda: s.commands.send_stdin(h.pid, "late"))
    big = await m(s.commands.run("head -c 300000 | wc -c", background=True, stdin=True))
    await m(s.commands.send_stdin(big.pid, "x" * 300000))
    equal((await m(big.wait())).stdout.strip(), "300000")


@check("commands.close_stdin")
async def close_stdin(s):
    if not hasattr(s.commands, "close_stdin"):
        return
    h = await m(s.commands.run("wc -c", background=True, stdin=True))
    await m(s.commands.send_stdin(h.pid, "12345"))
    await m(s.commands.close_stdin(h.pid))
    equal((await m(h.wait())).stdout.strip(), "5")


@check("commands.send_stdin")
async def stdin_of_who_takes_none(s):
    h = await m(s.commands.run("sleep 1000", background=True, stdin=False))
    await raises(SandboxException, lambda: s.commands.send_stdin(h.pid, "x"))
    await m(h.kill())


# ---- terminals

@check("pty.create", "pty.send_stdin", "pty.resize", "pty.kill", essential=True)
async def pty(s):
    out = []
    if ASYNC:
        async def on_data(d):
            out.append(d)
        t = await s.pty.create(e2b.PtySize(rows=24, cols=80), on_data=on_data, envs={"X": "from pty"})
    else:
        t = s.pty.create(e2b.PtySize(rows=24, cols=80), envs={"X": "from pty"})
    await m(s.pty.resize(t.pid, e2b.PtySize(rows=30, cols=100)))
    await m(s.pty.send_stdin(t.pid, b"echo $X $(tput cols) $TERM; exit\n"))
    if ASYNC:
        await t.wait()
    else:
        t.wait(on_pty=lambda d: out.append(d))
    assert b"from pty 100 xterm-256color" in b"".join(out), out
    t = await m(s.pty.create(e2b.PtySize(rows=24, cols=80), **({"on_data": lambda d: None} if ASYNC else {})))
    assert await m(s.pty.kill(t.pid))
    await until("it lives", lambda: not_killed(s.pty, t.pid))


async def not_killed(commands, pid):
    return not await m(commands.kill(pid))


@check("commands.stream_input")
async def stream_input(s):
    if not hasattr(s.commands, "stream_input"):
        raise NotInThisVersion()
    h = await m(s.commands.run("cat", background=True, stdin=True, cwd="/tmp"))
    parts = ("one ", "two ", "three")
    if ASYNC:
        i = await m(s.commands.stream_input(h.pid))
        for part in parts:
            await m(i.send(part))
        await i.close()
    else:
        s.commands.stream_input(h.pid, iter(parts))
    await m(s.commands.close_stdin(h.pid))
    r = await m(h.wait())
    equal(r.stdout, "one two three")


@check("pty.connect")
async def pty_connect(s):
    kw = {"on_data": lambda d: None} if ASYNC else {}
    if not hasattr(s.pty, "connect"):
        return
    t = await m(s.pty.create(e2b.PtySize(rows=24, cols=80), **kw))
    out = []
    kw = {"on_data": lambda d: out.append(d)} if ASYNC else {}
    again = await m(s.pty.connect(t.pid, **kw))
    await m(s.pty.send_stdin(t.pid, b"echo joined; exit\n"))
    if ASYNC:
        await again.wait()
    else:
        again.wait(on_pty=lambda d: out.append(d))
    assert b"joined" in b"".join(out), out


# ---- files

@check("files.write", "files.read", essential=True)
async def write_and_read(s):
    i = await m(s.files.write("dir/new/a.txt", "text ä"))
    equal((i.name, i.path), ("a.txt", "/home/user/dir/new/a.txt"))
    equal(await m(s.files.read("dir/new/a.txt")), "text ä")
    equal(bytes(await m(s.files.read("/home/user/dir/new/a.txt", format="bytes"))), "text ä".encode())
    await m(s.files.write("dir/new/a.txt", b"\x00\xff"))
    equal(bytes(await m(s.files.read("dir/new/a.txt", format="bytes"))), b"\x00\xff")
    await m(s.files.write("empty", ""))
    equal(await m(s.files.read("empty")), "")
    chunks = await m(s.files.read("dir/new/a.txt", format="stream"))
    got = b"".join([c async for c in chunks]) if hasattr(chunks, "__aiter__") else b"".join(chunks)
    equal(got, b"\x00\xff")
    equal((await m(s.commands.run("stat -c '%U %a' dir dir/new dir/new/a.txt"))).stdout, "user 755\nuser 755\nuser 644\n")
    await raises(NotFoundException, lambda: s.files.read("no/such/file"))
    await raises(e2b.InvalidArgumentException, lambda: s.files.read("dir"))
    await raises(e2b.InvalidArgumentException, lambda: s.files.write("dir", "x"))
    big = os.urandom(3_000_000)
    await m(s.files.write("big", big))
    equal(bytes(await m(s.files.read("big", format="bytes"))), big)
    name = 'odd "name" ä.txt'
    await m(s.files.write(name, "odd"))
    equal(await m(s.files.read(name)), "odd")


@check("files.write(user)", "files.read(user)", essential=True)
async def files_of_users(s):
    i = await m(s.files.write("root.txt", "x", user="root"))
    equal(i.path, "/root/root.txt")
    equal(await m(s.files.read("root.txt", user="root")), "x")
    equal((await m(s.files.get_info("/root/root.txt", user="root"))).owner, "root")
    await raises((SandboxException, e2b.AuthenticationException), lambda: s.files.write("x", "x", user="nosuchuser"))


@check("files.write_files", essential=True)
async def write_many(s):
    data = [{"path": f"many/{n}.txt", "data": str(n)} for n in range(5)]
    out = await m(s.files.write_files(data) if hasattr(s.files, "write_files") else s.files.write(data))
    equal([i.path for i in out], [f"/home/user/many/{n}.txt" for n in range(5)])
    equal(await m(s.files.read("many/4.txt")), "4")


@check("files.list", "files.exists", "files.get_info", "files.make_dir", "files.rename", "files.remove", essential=True)
async def directories(s):
    assert await m(s.files.make_dir("d1/d2"))
    assert not await m(s.files.make_dir("d1/d2"))
    await m(s.files.write("d1/f", "12345"))
    await raises(SandboxException, lambda: s.files.make_dir("d1/f"))
    await m(s.commands.run("ln -s f d1/l; ln -s d2 d1/ld; ln -s nowhere d1/broken"))
    entries = {x.name: x for x in await m(s.files.list("d1"))}
    equal((entries["d2"].type, entries["f"].type, entries["l"].type, entries["ld"].type), (FileType.DIR, FileType.FILE, FileType.FILE, FileType.DIR))
    equal(entries["l"].symlink_target, "/home/user/d1/f")
    equal((entries["f"].size, entries["f"].mode, entries["f"].permissions, entries["f"].owner, entries["f"].path), (5, 0o644, "-rw-r--r--", "user", "/home/user/d1/f"))
    equal(sorted(x.path for x in await m(s.files.list("d1", depth=2)) if x.name != "broken"), [f"/home/user/d1/{n}" for n in ("d2", "f", "l", "ld")])
    i = await m(s.files.get_info("d1/f"))
    equal((i.name, i.type, i.size, i.path), ("f", FileType.FILE, 5, "/home/user/d1/f"))
    assert abs(i.modified_time.timestamp() - time.time()) < 300
    assert await m(s.files.exists("d1/f")) and not await m(s.files.exists("d1/none")) and not await m(s.files.exists("d1/f/below"))
    await raises(NotFoundException, lambda: s.files.get_info("d1/none"))
    await raises(NotFoundException, lambda: s.files.list("none"))
    await raises(e2b.InvalidArgumentException, lambda: s.files.list("d1/f"))
    i = await m(s.files.rename("d1/f", "d3/d4/g"))
    equal(i.path, "/home/user/d3/d4/g")
    await raises(NotFoundException, lambda: s.files.rename("d1/f", "d1/h"))
    await m(s.files.remove("d3/d4/g"))
    await m(s.files.remove("d3"))
    await m(s.files.remove("d3"))
    assert not await m(s.files.exists("d3"))


@check("files.watch_dir", "WatchHandle.stop", "WatchHandle.get_new_events", essential=True)
async def watch(s):
    await m(s.files.make_dir("w"))
    out = []
    if ASYNC:
        h = await s.files.watch_dir("w", on_event=lambda e: out.append(e))
    else:
        h = s.files.watch_dir("w")

    async def new():
        if not ASYNC:
            return [(e.name, e.type.value) for e in h.get_new_events()]
        end = time.monotonic() + 5
        while len(out) < expected and time.monotonic() < end:
            await asyncio.sleep(0.02)
        got = [(e.name, e.type.value) for e in out]
        out.clear()
        return got

    expected = 3
    await m(s.files.write("w/new.txt", "1"))
    equal(await new(), [("new.txt", "create"), ("new.txt", "chmod"), ("new.txt", "write")])
    expected = 1
    await m(s.files.write("w/new.txt", "2"))
    equal(await new(), [("new.txt", "write")])
    expected = 2
    await m(s.files.rename("w/new.txt", "w/other.txt"))
    equal(sorted(await new()), [("new.txt", "rename"), ("other.txt", "create")])
    expected = 1
    await m(s.files.remove("w/other.txt"))
    equal(await new(), [("other.txt", "remove")])
    await m(h.stop())
    if not ASYNC:
        await raises(SandboxException, lambda: h.get_new_events())
    await raises(NotFoundException, lambda: s.files.watch_dir("none", **({"on_event": print} if ASYNC else {})))
    await raises(e2b.InvalidArgumentException, lambda: s.files.watch_dir("/etc/hostname", **({"on_event": print} if ASYNC else {})))


@check("files.watch_dir(recursive)")
async def watch_recursively(s):
    await m(s.files.make_dir("wr/sub"))
    out = []
    if ASYNC:
        h = await s.files.watch_dir("wr", on_event=lambda e: out.append(e), recursive=True)
    else:
        h = s.files.watch_dir("wr", recursive=True)
    await m(s.files.write("wr/sub/f", "1"))
    await m(s.files.make_dir("wr/later"))
    await m(s.files.write("wr/later/g", "1"))

    def there():
        if not ASYNC:
            out.extend(h.get_new_events())
        names = {(e.name, e.type.value) for e in out}
        return {("sub/f", "write"), ("later", "create"), ("later/g", "create")} <= names
    await until("events are missing", there)
    await m(h.stop())


@check("download_url", "upload_url", essential=True)
async def signed_urls(s):
    await m(s.files.write("signed.txt", "by url"))
    url = s.download_url("signed.txt", user="user")
    equal(urllib.request.urlopen(url).read(), b"by url")
    equal(urllib.request.urlopen(s.download_url("signed.txt", user="user", use_signature_expiration=60)).read(), b"by url")
    bad = url.replace("signed.txt", "other.txt")
    e = await raises(urllib.error.HTTPError, lambda: urllib.request.urlopen(bad))
    equal((e.code, json.loads(e.read())), (401, {"code": 401, "message": "invalid signature"}))
    e = await raises(urllib.error.HTTPError, lambda: urllib.request.urlopen(s.download_url("signed.txt", user="user", use_signature_expiration=-10)))
    equal(json.loads(e.read()), {"code": 401, "message": "signature is already expired"})
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\n\r\nuploaded\r\n--b--\r\n'
    r = urllib.request.Request(s.upload_url("up.txt", user="user"), data=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    equal(json.loads(urllib.request.urlopen(r).read()), [{"name": "up.txt", "path": "/home/user/up.txt", "type": "file"}])
    equal(await m(s.files.read("up.txt")), "uploaded")


# ---- git

@check("git.clone", "git.init", "git.add", "git.commit", "git.status", "git.branches", "git.create_branch", "git.checkout_branch", "git.configure_user",
       "git.push", "git.pull", "git.remote_add", "git.set_config", "git.get_config", "git.reset", "git.restore", "git.delete_branch")
async def git(s):
    g = s.git
    await m(g.configure_user("Someone", "someone@example.org"))
    await m(g.init("repo", initial_branch="main"))
    await m(s.files.write("repo/a.txt", "1"))
    await m(g.add("repo"))
    st = await m(g.status("repo"))
    assert st.has_staged, st
    await m(g.commit("repo", "first"))
    assert (await m(g.status("repo"))).is_clean
    await m(g.create_branch("repo", "side"))
    await m(g.checkout_branch("repo", "main"))
    b = await m(g.branches("repo"))
    equal((sorted(b.branches), b.current_branch), (["main", "side"], "main"))
    await m(g.delete_branch("repo", "side"))
    await m(g.set_config("space.test", "v", scope="local", path="repo"))
    equal(await m(g.get_config("space.test", scope="local", path="repo")), "v")
    await m(s.commands.run("git init -q --bare /tmp/bare.git"))
    await m(g.remote_add("repo", "origin", "/tmp/bare.git"))
    await m(g.push("repo", remote="origin", branch="main"))
    await m(g.clone("/tmp/bare.git", "clone", branch="main"))
    equal(await m(s.files.read("clone/a.txt")), "1")
    await m(s.files.write("repo/a.txt", "2"))
    await m(g.restore("repo", paths=["a.txt"]))
    equal(await m(s.files.read("repo/a.txt")), "1")
    await m(s.files.write("repo/b.txt", "2"))
    await m(g.add("repo"))
    await m(g.reset("repo"))
    await m(g.pull("clone"))


# ---- what may not be there: then it's said, which counts as unsupported

@check("Sandbox.get_host", own=False)
async def get_host(s):
    host = s.get_host(3000)
    assert host.startswith(f"3000-{s.sandbox_id}.") and host.endswith(".invalid"), host
    h = await m(s.commands.run("python3 -m http.server 3000", background=True))
    try:
        headers = {"E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": "3000", "Host": host}
        urllib.request.urlopen(urllib.request.Request(os.environ["E2B_SANDBOX_URL"], headers=headers))
    except urllib.error.HTTPError as e:
        raise AssertionError(e.read().decode()) from e
    finally:
        await m(h.kill())


@check("Sandbox.create(network)", essential=True, own=True)
async def network():
    s = await m(new(network={"deny_out": ["0.0.0.0/0"]}))
    await m(s.kill())


@check("Volume.create", own=True)
async def volumes():
    Volume = getattr(e2b, "AsyncVolume" if ASYNC else "Volume", None)
    assert Volume, "this platform doesn't have that yet, and neither has this version of the SDK"
    await m(Volume.create("v"))


# ---- templates

@check("Template.build", "Template.build_in_background", "Template.get_build_status", "Template.exists", "Template.alias_exists", "Template.assign_tags",
       "Template.get_tags", "Template.remove_tags", own=True)
async def template_build():
    import tempfile
    name = "suite-" + os.urandom(4).hex()
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(f"{d}/app/sub")
        open(f"{d}/app/one.txt", "w").write("one")
        open(f"{d}/app/sub/two.txt", "w").write("two")
        open(f"{d}/single.txt", "w").write("single")
        t = (Template(file_context_path=d).from_template(TEMPLATE).set_envs({"BUILT": "yes"}).copy("app", "/opt/app").copy("single.txt", "/opt/single.txt")
             .run_cmd("echo ran > /tmp/ran && [[ -e /opt/app/sub/two.txt ]]").set_workdir("/opt/app")
             .set_start_cmd("sleep 4321", "pgrep -f 'sleep 4321'"))
        logs = []
        b = await m(Template.build(t, name if VERSION >= Version("2.10.3") else name, cpu_count=1, memory_mb=512, on_build_logs=lambda e: logs.append(e)))
    said = [e.message for e in logs]
    assert "copy app to /opt/app" in said and any(x.startswith("run echo ran > /tmp/ran") for x in said), said
    assert not any(own in x for x in said for own in ("e2b-copy", "set -e", "/bin/bash -c", "useradd")), said
    alias_exists = getattr(Template, "exists", None) or Template.alias_exists
    assert await m(alias_exists(name))
    assert not await m(alias_exists(name + "-none"))
    s = await m(new(template=name))
    try:
        r = await m(s.commands.run("cat /opt/app/one.txt /opt/app/sub/two.txt /opt/single.txt; echo $BUILT; pgrep -f 'sleep 4321' >/dev/null && echo started; cat /tmp/ran"))
        equal(r.stdout, "onetwosingleyes\nstarted\nran\n")
        equal((await m(s.get_info())).name, name)
    finally:
        await m(s.kill())
    if hasattr(Template, "assign_tags"):
        await m(Template.assign_tags(f"{name}:default", ["v1"]))
        equal(sorted(x.tag for x in await m(Template.get_tags(name))), ["default", "v1"])
        s = await m(new(template=f"{name}:v1"))
        await m(s.kill())
        await m(Template.remove_tags(name, ["v1"]))
    assert await m(Sandbox.delete_snapshot(name))


@check("Template.apt_install", "Template.pip_install", "Template.npm_install", "Template.git_clone", own=True)
async def template_build_from_the_network():
    said = set()
    for t in (Template().from_template(TEMPLATE).apt_install(["sl"]), Template().from_template(TEMPLATE).pip_install(["idna"])):
        e = await raises(e2b.BuildException, lambda: Template.build(t, "suite-net-" + os.urandom(4).hex(), cpu_count=1, memory_mb=512))
        assert "have no network" in str(e), str(e)
        said.add(str(e).splitlines()[-1])
    raise AssertionError(f"this platform doesn't have that yet: {said.pop()}")


@check("Template.build", own=True)
async def template_build_that_fails():
    t = Template().from_template(TEMPLATE).run_cmd("echo fine").run_cmd("echo bad words; exit 7")
    logs = []
    e = await raises(e2b.BuildException, lambda: Template.build(t, "suite-bad-" + os.urandom(4).hex(), cpu_count=1, memory_mb=512, on_build_logs=lambda x: logs.append(x.message)))
    assert any("bad words" in x for x in logs), logs


# ---- run

async def main():
    shared, failed = None, 0
    only = os.environ.get("E2B_SUITE_ONLY", "")
    for f, methods, essential, own in checks:
        if ESSENTIAL and not essential or only and f.__name__ not in only.split(","):
            continue
        began, result, why = time.monotonic(), "passed", ""
        try:
            missing = missing_methods(methods)
            if missing:
                result, why = "unsupported", f"this version of the SDK has no {', '.join(missing)}"
            elif own:
                await asyncio.wait_for(f(), 400)
            else:
                if shared is None:
                    shared = await m(new(metadata={"suite": "shared"}))
                await asyncio.wait_for(f(shared), 200)
        except NotInThisVersion:
            result, why = "unsupported", "this version of the SDK doesn't have it"
        except Exception as e:
            result, why = "failed", "".join(traceback.format_exception(e))[-1500:]
            if "this platform doesn't have that yet" in str(e):
                result, why = "unsupported", str(e)
            else:
                failed += 1
        for name in methods:
            print(json.dumps({"method": name, "check": f.__name__, "result": result, "why": why, "seconds": round(time.monotonic() - began, 2)}), flush=True)
    if shared is not None:
        await m(shared.kill())
    return 1 if failed else 0


def missing_methods(methods):
    """Those that this version of the SDK doesn't have."""
    out = []
    for name in methods:
        what, _, attribute = name.partition("(")[0].partition(".")
        if what == "Sandbox" and attribute in ("fork", "create_snapshot") and not hasattr(Sandbox, attribute):
            out.append(name)
    return out


sys.exit(asyncio.run(main()))
