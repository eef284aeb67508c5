// The methods of E2B's JavaScript SDK against a platform, as a black box: node suite.mjs [essential], in a directory where the package is installed.
//
// Each check names the methods that it is about. A line of JSON is printed for each: {"method", "check", "result": passed|failed|unsupported, "why"}.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const here = createRequire(path.join(process.cwd(), 'x.js'))
const e2b = await import(pathToFileURL(here.resolve('e2b').replace(/index\.js$/, 'index.mjs')))
const { Sandbox, Template } = e2b
const essentialOnly = process.argv.includes('essential')
const only = (process.env.E2B_SUITE_ONLY ?? '').split(',').filter(Boolean)
const template = process.env.E2B_SUITE_TEMPLATE ?? 'base'
const checks = []

const check = (methods, options, f) => checks.push({ methods, f, essential: false, own: false, ...options })
const make = (opts = {}) => Sandbox.create(opts.template ?? template, { timeoutMs: 600_000, ...opts, template: undefined })
const sleep = (ms) => new Promise((r) => setTimeout(r, ms))

async function until(what, f, seconds = 20) {
  for (const end = Date.now() + seconds * 1000; ; await sleep(50)) {
    const last = await f()
    if (last) return last
    assert.ok(Date.now() < end, `${what} after ${seconds} s`)
  }
}

async function fails(f, name) {
  try {
    await f()
  } catch (e) {
    if (name) assert.ok(new RegExp(name).test(e.name + ' ' + e.constructor.name), `got ${e.name}: ${e.message}, want ${name}`)
    return e
  }
  assert.fail(`nothing was thrown, want ${name ?? 'an error'}`)
}

async function all(pager) {
  const out = []
  while (pager.hasNext) out.push(...(await pager.nextItems()))
  return out
}

// ---- sandboxes

check(['Sandbox.create', 'Sandbox.kill', 'sandbox.isRunning'], { essential: true, own: true }, async function create_and_kill() {
  const s = await make({ metadata: { suite: 'create' }, envs: { FROM_CREATE: '1' } })
  assert.match(s.sandboxId, /^[a-z0-9]+$/)
  assert.equal(await s.isRunning(), true)
  assert.equal((await s.commands.run('echo $FROM_CREATE $E2B_SANDBOX $E2B_SANDBOX_ID')).stdout, `1 true ${s.sandboxId}\n`)
  await s.kill()
  assert.equal(await s.isRunning(), false)
  assert.equal(await Sandbox.kill(s.sandboxId), false)
})

check(['Sandbox.create'], { essential: true, own: true }, async function refusals() {
  await fails(() => make({ template: 'no-such-template' }))
  await fails(() => make({ apiKey: 'e2b_' + '0'.repeat(40) }), 'Authentication')
  await fails(() => Sandbox.connect('a'.repeat(26)), 'NotFound|Sandbox')
  await fails(() => make({ timeoutMs: 1e13 }))
})

check(['Sandbox.connect', 'sandbox.connect'], { essential: true }, async function connect(s) {
  const before = (await s.getInfo()).endAt
  const again = await Sandbox.connect(s.sandboxId, { timeoutMs: 5000 })
  assert.equal((await again.commands.run('echo again')).stdout, 'again\n')
  assert.deepEqual((await s.getInfo()).endAt, before)
  await s.connect({ timeoutMs: 3_000_000 })
  assert.ok((await s.getInfo()).endAt > before)
})

check(['sandbox.getInfo', 'Sandbox.list'], { essential: true, own: true }, async function info_and_list() {
  const tag = randomBytes(6).toString('hex')
  const made = []
  try {
    for (let n = 0; n < 3; n++) made.push(await make({ metadata: { suite: tag, 'odd name': `v&${n % 2}` } }))
    const i = await made[0].getInfo()
    assert.equal(i.sandboxId, made[0].sandboxId)
    assert.deepEqual(i.metadata, { suite: tag, 'odd name': 'v&0' })
    assert.equal(i.state, 'running')
    const pager = Sandbox.list({ query: { metadata: { suite: tag } }, limit: 2 })
    const first = await pager.nextItems()
    assert.equal(first.length, 2)
    assert.equal(pager.hasNext, true)
    const rest = await pager.nextItems()
    assert.equal(pager.hasNext, false)
    assert.deepEqual([...first, ...rest].map((x) => x.sandboxId).sort(), made.map((x) => x.sandboxId).sort())
    const odd = await all(Sandbox.list({ query: { metadata: { suite: tag, 'odd name': 'v&1' }, state: ['running'] } }))
    assert.deepEqual(odd.map((x) => x.sandboxId), [made[1].sandboxId])
    assert.deepEqual(await all(Sandbox.list({ query: { metadata: { suite: tag }, state: ['paused'] } })), [])
  } finally {
    for (const s of made) await s.kill()
  }
})

check(['sandbox.setTimeout'], { essential: true, own: true }, async function set_timeout() {
  const s = await make()
  await s.setTimeout(100_000)
  const left = (await s.getInfo()).endAt - Date.now()
  assert.ok(left > 80_000 && left < 120_000, `${left}`)
  await s.setTimeout(1000)
  await until('it runs', async () => !(await s.isRunning()))
})

check(['sandbox.getMetrics'], {}, async function metrics(s) {
  const list = await until('no metrics', async () => { const x = await s.getMetrics(); return x.length ? x : null })
  const one = list.at(-1)
  assert.ok(one.cpuCount >= 1 && one.memTotal > one.memUsed && one.memUsed > 0 && one.diskTotal > one.diskUsed, JSON.stringify(one))
})

check(['sandbox.pause', 'sandbox.connect'], { essential: true, own: true }, async function pause_and_connect() {
  const s = await make({ metadata: { suite: 'pause' }, envs: { KEPT: 'yes' } })
  try {
    await s.files.write('kept.txt', 'kept')
    const h = await s.commands.run('sleep 1000', { background: true })
    const pause = () => (s.pause ? s.pause() : s.betaPause())
    await pause()
    assert.equal((await s.getInfo()).state, 'paused')
    assert.equal(await s.isRunning(), false)
    await pause()
    await s.connect()
    assert.equal(await s.files.read('kept.txt'), 'kept')
    assert.equal((await s.commands.run('echo $KEPT')).stdout, 'yes\n')
    assert.ok((await s.commands.list()).some((p) => p.pid === h.pid))
    assert.deepEqual((await s.getInfo()).metadata, { suite: 'pause' })
  } finally {
    await s.kill()
  }
})

check(['Sandbox.create(lifecycle)'], { own: true }, async function auto_pause() {
  const s = await make({ timeoutMs: 3000, lifecycle: { onTimeout: 'pause' } })
  try {
    await until("it isn't paused", async () => (await s.getInfo()).state === 'paused')
    await s.connect({ timeoutMs: 60_000 })
    assert.equal(await s.isRunning(), true)
  } finally {
    await s.kill()
  }
})

check(['Sandbox.create(autoResume)'], { own: true }, async function auto_resume() {
  const s = await make({ timeoutMs: 3000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  try {
    await s.files.write('kept.txt', 'kept')
    await until("it isn't paused", async () => (await s.getInfo()).state === 'paused')
    assert.equal(await s.files.read('kept.txt'), 'kept')
  } finally {
    await s.kill()
  }
})

check(['sandbox.createSnapshot', 'sandbox.listSnapshots', 'Sandbox.deleteSnapshot'], { own: true }, async function snapshots() {
  const s = await make()
  try {
    await s.files.write('at.txt', 'snapshot')
    const snap = await s.createSnapshot()
    await s.files.write('at.txt', 'later')
    const child = await make({ template: snap.snapshotId })
    assert.equal(await child.files.read('at.txt'), 'snapshot')
    await child.kill()
    assert.ok((await all(s.listSnapshots())).some((x) => x.snapshotId === snap.snapshotId))
    assert.equal(await Sandbox.deleteSnapshot(snap.snapshotId), true)
    assert.equal(await Sandbox.deleteSnapshot(snap.snapshotId), false)
  } finally {
    await s.kill()
  }
})

check(['sandbox.fork'], { own: true }, async function fork() {
  const s = await make()
  const children = []
  try {
    await s.files.write('at.txt', 'fork')
    for (const f of await s.fork({ count: 2 })) children.push(f.sandbox ?? f)
    assert.equal(new Set(children.map((c) => c.sandboxId)).size, 2)
    for (const c of children) assert.equal(await c.files.read('at.txt'), 'fork')
  } finally {
    for (const c of children) await c.kill()
    await s.kill()
  }
})

// ---- commands

check(['commands.run'], { essential: true }, async function run(s) {
  const r = await s.commands.run('echo out; echo err >&2')
  assert.deepEqual([r.stdout, r.stderr, r.exitCode], ['out\n', 'err\n', 0])
  const e = await fails(() => s.commands.run('echo bad; exit 3'), 'CommandExit')
  assert.deepEqual([e.exitCode, e.stdout], [3, 'bad\n'])
  assert.equal((await s.commands.run('pwd; whoami; echo $HOME $X', { cwd: '/tmp', envs: { X: 'a b' }, user: 'root' })).stdout, '/tmp\nroot\n/root a b\n')
  assert.equal((await s.commands.run("echo 'ä€𝄞'")).stdout, 'ä€𝄞\n')
  const out = []
  await s.commands.run('echo one; sleep 0.3; echo two', { onStdout: (d) => out.push(d) })
  assert.equal(out.join(''), 'one\ntwo\n')
  assert.equal((await s.commands.run("head -c 1000000 /dev/zero | tr '\\0' x", { timeoutMs: 120_000 })).stdout.length, 1_000_000)
})

check(['commands.run(timeoutMs)'], { essential: true }, async function run_with_a_timeout(s) {
  const began = Date.now()
  await fails(() => s.commands.run('sleep 100', { timeoutMs: 2000 }), 'Timeout')
  assert.ok(Date.now() - began < 8000)
})

check(['commands.run(background)', 'commands.kill', 'commands.list', 'CommandHandle.kill', 'CommandHandle.wait'], { essential: true }, async function background(s) {
  const h = await s.commands.run('sleep 1000', { background: true })
  assert.ok(h.pid > 0)
  const found = (await s.commands.list()).filter((p) => p.pid === h.pid)
  assert.deepEqual(found.map((p) => [p.cmd, p.args]), [['/bin/bash', ['-l', '-c', 'sleep 1000']]])
  assert.equal(await s.commands.kill(h.pid), true)
  await fails(() => h.wait(), 'CommandExit')
  assert.equal(await s.commands.kill(h.pid), false)
  const other = await s.commands.run('sleep 1000', { background: true })
  assert.equal(await other.kill(), true)
})

check(['commands.connect', 'CommandHandle.disconnect', 'commands.sendStdin'], { essential: true }, async function connect_to_a_command(s) {
  const h = await s.commands.run('echo early; touch said; read x; echo got $x; exit 4', { background: true, stdin: true })
  await until('nothing was said', () => s.files.exists('said'))
  const again = await s.commands.connect(h.pid)
  await s.commands.sendStdin(h.pid, 'word\n')
  const e = await fails(() => again.wait(), 'CommandExit')
  assert.deepEqual([e.exitCode, e.stdout], [4, 'got word\n'])
  assert.equal((await fails(() => h.wait(), 'CommandExit')).stdout, 'early\ngot word\n')
  await fails(() => s.commands.connect(999999), 'NotFound')
  const left = await s.commands.run('sleep 1000', { background: true })
  await left.disconnect()
  assert.ok((await s.commands.list()).some((p) => p.pid === left.pid))
  await s.commands.kill(left.pid)
})

check(['commands.closeStdin'], {}, async function close_stdin(s) {
  const h = await s.commands.run('wc -c', { background: true, stdin: true })
  await s.commands.sendStdin(h.pid, '12345')
  await s.commands.closeStdin(h.pid)
  assert.equal((await h.wait()).stdout.trim(), '5')
})

// ---- terminals

check(['pty.create', 'pty.sendInput', 'pty.resize', 'pty.kill', 'pty.connect'], { essential: true }, async function pty(s) {
  const out = []
  const t = await s.pty.create({ rows: 24, cols: 80, onData: (d) => out.push(Buffer.from(d)), envs: { X: 'from pty' } })
  await s.pty.resize(t.pid, { rows: 30, cols: 100 })
  const again = []
  const joined = await s.pty.connect(t.pid, { onData: (d) => again.push(Buffer.from(d)) })
  await s.pty.sendInput(t.pid, Buffer.from('echo $X $(tput cols) $TERM; exit\n'))
  await t.wait()
  await joined.wait()
  assert.match(Buffer.concat(out).toString(), /from pty 100 xterm-256color/)
  assert.match(Buffer.concat(again).toString(), /from pty 100/)
  const other = await s.pty.create({ rows: 24, cols: 80, onData: () => {} })
  assert.equal(await s.pty.kill(other.pid), true)
  await until('it lives', async () => !(await s.pty.kill(other.pid)))
})

// ---- files

check(['files.write', 'files.read', 'files.writeFiles'], { essential: true }, async function write_and_read(s) {
  const i = await s.files.write('dir/new/a.txt', 'text ä')
  assert.deepEqual([i.name, i.path], ['a.txt', '/home/user/dir/new/a.txt'])
  assert.equal(await s.files.read('dir/new/a.txt'), 'text ä')
  await s.files.write('dir/b', new Uint8Array([0, 255]).buffer)
  assert.deepEqual([...(await s.files.read('dir/b', { format: 'bytes' }))], [0, 255])
  await s.files.write('empty', '')
  assert.equal(await s.files.read('empty'), '')
  await fails(() => s.files.read('no/such/file'), 'NotFound')
  await fails(() => s.files.read('dir'), 'InvalidArgument')
  const out = await s.files.write([{ path: 'many/1', data: '1' }, { path: 'many/2', data: '2' }])
  assert.deepEqual(out.map((x) => x.path), ['/home/user/many/1', '/home/user/many/2'])
  const blob = await s.files.read('dir/b', { format: 'blob' })
  assert.equal(blob.size, 2)
  const stream = await s.files.read('dir/b', { format: 'stream' })
  let n = 0
  for await (const c of stream) n += c.length
  assert.equal(n, 2)
  await s.files.write('root.txt', 'x', { user: 'root' })
  assert.equal(await s.files.read('/root/root.txt', { user: 'root' }), 'x')
  const odd = 'odd "name" ä.txt'
  await s.files.write(odd, 'odd')
  assert.equal(await s.files.read(odd), 'odd')
})

check(['files.list', 'files.exists', 'files.getInfo', 'files.makeDir', 'files.rename', 'files.remove'], { essential: true }, async function directories(s) {
  assert.equal(await s.files.makeDir('d1/d2'), true)
  assert.equal(await s.files.makeDir('d1/d2'), false)
  await s.files.write('d1/f', '12345')
  await s.commands.run('ln -s f d1/l')
  const entries = Object.fromEntries((await s.files.list('d1')).map((x) => [x.name, x]))
  assert.deepEqual([entries.d2.type, entries.f.type, entries.l.type], ['dir', 'file', 'file'])
  assert.equal(entries.l.symlinkTarget, '/home/user/d1/f')
  assert.equal(entries.f.size, 5)
  const i = await s.files.getInfo('d1/f')
  assert.deepEqual([i.name, i.path, i.size, i.mode, i.permissions, i.owner], ['f', '/home/user/d1/f', 5, 0o644, '-rw-r--r--', 'user'])
  assert.equal(await s.files.exists('d1/none'), false)
  await fails(() => s.files.getInfo('d1/none'), 'NotFound')
  await fails(() => s.files.list('none'), 'NotFound')
  assert.equal((await s.files.rename('d1/f', 'd3/d4/g')).path, '/home/user/d3/d4/g')
  await s.files.remove('d3')
  await s.files.remove('d3')
  assert.equal(await s.files.exists('d3'), false)
})

check(['files.watchDir', 'WatchHandle.stop'], { essential: true }, async function watch(s) {
  await s.files.makeDir('w')
  const out = []
  const h = await s.files.watchDir('w', (e) => out.push([e.name, e.type]), { recursive: true })
  await s.files.write('w/new.txt', '1')
  await until('events are missing', () => out.length >= 3)
  assert.deepEqual(out, [['new.txt', 'create'], ['new.txt', 'chmod'], ['new.txt', 'write']])
  await s.files.makeDir('w/later')
  await s.files.write('w/later/g', '1')
  await until('events are missing', () => out.some((e) => e[0] === 'later/g'))
  await h.stop()
  await fails(() => s.files.watchDir('none', () => {}), 'NotFound')
})

check(['sandbox.downloadUrl', 'sandbox.uploadUrl'], { essential: true }, async function signed_urls(s) {
  await s.files.write('signed.txt', 'by url')
  const url = await s.downloadUrl('signed.txt', { user: 'user', useSignatureExpiration: 60_000 })
  assert.equal(await (await fetch(url)).text(), 'by url')
  const bad = await fetch(url.replace('signed.txt', 'other.txt'))
  assert.deepEqual([bad.status, await bad.json()], [401, { code: 401, message: 'invalid signature' }])
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), 'up.txt')
  const up = await fetch(await s.uploadUrl('up.txt', { user: 'user' }), { method: 'POST', body: form })
  assert.deepEqual(await up.json(), [{ name: 'up.txt', path: '/home/user/up.txt', type: 'file' }])
})

// ---- git

check(['git.init', 'git.add', 'git.commit', 'git.status', 'git.clone', 'git.branches', 'git.createBranch', 'git.checkoutBranch', 'git.configureUser'], {}, async function git(s) {
  await s.git.configureUser('Someone', 'someone@example.org')
  await s.git.init('repo', { initialBranch: 'main' })
  await s.files.write('repo/a.txt', '1')
  await s.git.add('repo')
  assert.equal((await s.git.status('repo')).hasStaged, true)
  await s.git.commit('repo', 'first')
  assert.equal((await s.git.status('repo')).isClean, true)
  await s.git.createBranch('repo', 'side')
  await s.git.checkoutBranch('repo', 'main')
  const b = await s.git.branches('repo')
  assert.deepEqual([b.branches.sort(), b.currentBranch], [['main', 'side'], 'main'])
  await s.git.clone('/home/user/repo', { path: 'clone' })
  assert.equal(await s.files.read('clone/a.txt'), '1')
})

// ---- what may not be there: then it's said, which counts as unsupported

check(['Sandbox.create(network)'], { essential: true, own: true }, async function network() {
  await (await make({ network: { denyOut: ['0.0.0.0/0'] } })).kill()
})

check(['Volume.create'], { own: true }, async function volumes() {
  await e2b.Volume.create('v')
})

check(['sandbox.getHost'], {}, async function get_host(s) {
  assert.ok(s.getHost(3000).startsWith(`3000-${s.sandboxId}.`) && s.getHost(3000).endsWith('.invalid'))
  const h = await s.commands.run('python3 -m http.server 3000', { background: true })
  const r = await fetch(process.env.E2B_SANDBOX_URL, { headers: { 'E2b-Sandbox-Id': s.sandboxId, 'E2b-Sandbox-Port': '3000' } })
  await h.kill()
  assert.equal(r.status, 200, await r.text())
})

// ---- templates

check(['Template.build', 'Template.exists', 'Template.assignTags', 'Template.getTags', 'Template.removeTags'], { own: true }, async function template_build() {
  const name = 'suite-' + randomBytes(4).toString('hex')
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'suite-'))
  fs.mkdirSync(path.join(dir, 'app/sub'), { recursive: true })
  fs.writeFileSync(path.join(dir, 'app/one.txt'), 'one')
  fs.writeFileSync(path.join(dir, 'app/sub/two.txt'), 'two')
  const logs = []
  try {
    const t = Template({ fileContextPath: dir }).fromTemplate(template).setEnvs({ BUILT: 'yes' }).copy('app', '/opt/app').runCmd('echo ran > /tmp/ran')
    await Template.build(t, name, { cpuCount: 1, memoryMB: 512, onBuildLogs: (l) => logs.push(l.message) })
  } finally {
    fs.rmSync(dir, { recursive: true })
  }
  assert.ok(logs.length > 0)
  assert.equal(await Template.exists(name), true)
  assert.equal(await Template.exists(name + '-none'), false)
  const s = await make({ template: name })
  try {
    assert.equal((await s.commands.run('cat /opt/app/one.txt /opt/app/sub/two.txt; echo $BUILT; cat /tmp/ran')).stdout, 'onetwoyes\nran\n')
  } finally {
    await s.kill()
  }
  await Template.assignTags(`${name}:default`, ['v1'])
  assert.deepEqual((await Template.getTags(name)).map((x) => x.tag).sort(), ['default', 'v1'])
  await Template.removeTags(name, ['v1'])
  assert.equal(await Sandbox.deleteSnapshot(name), true)
})

// ---- run

const missing = (name) => {
  const [what, method] = name.split('(')[0].split('.')
  const of = { Sandbox, sandbox: Sandbox.prototype, Template }[what]
  return of && method && !(method in of) && !(method === 'pause' && 'betaPause' in of)
}

let shared
let failed = 0
for (const { methods, f, essential, own } of checks) {
  if ((essentialOnly && !essential) || (only.length && !only.includes(f.name))) continue
  const began = Date.now()
  let result = 'passed'
  let why = ''
  try {
    if (methods.some(missing)) {
      result = 'unsupported'
      why = `this version of the SDK has no ${methods.filter(missing)}`
    } else if (own) await f()
    else await f((shared ??= await make({ metadata: { suite: 'shared' } })))
  } catch (e) {
    result = 'failed'
    why = String(e.stack ?? e).slice(0, 1500)
    if (String(e.message).includes("this platform doesn't have that yet")) {
      result = 'unsupported'
      why = e.message
    } else failed++
  }
  for (const method of methods) console.log(JSON.stringify({ method, check: f.name, result, why, seconds: (Date.now() - began) / 1000 }))
}
await shared?.kill()
process.exit(failed ? 1 : 0)
