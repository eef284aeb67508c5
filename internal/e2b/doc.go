// Package e2b lets E2B's SDKs work unmodified: it speaks their two protocols and is itself a client of the public API, with the API key or the
// token that each request brings, and nothing else. It has no key, no database and no way in of its own.
//
// Control is the control API: sandboxes, snapshots, templates. Data is what the SDKs do in a sandbox: processes and files over Connect, and files
// over plain HTTP. Each has a port of its own.
//
// The words of both sides:
//
//	E2B                     the platform
//	sandbox id              the sandbox's id without its prefix
//	API key                 API key; those of the format e2b pass the SDKs' own check
//	envd access token       the sandbox's id, and a sandbox token (see access.go): what comes without a sandbox's name is routed by it
//	process, by its pid     session
//	timeout, kill or pause  lifetime, with the action delete or suspend
//
// What a restart of this process takes are watchers that are polled: they are not_found then. Which tokens URLs were signed with, and how far builds of
// templates are, is noted in a file (memory.go), which is a cache: without it URLs open nothing until their sandbox is heard of again, and builds are begun anew.
//
// What the platform doesn't have yet is refused with a sentence, never ignored.
package e2b
