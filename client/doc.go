// Package client is the Go SDK of SPACE: sandboxes, sessions and templates over the public API.
//
// A Client talks to one platform with one API key. Its methods wait for lifecycle changes to end and return typed errors:
//
//	c, err := client.New("http://127.0.0.1:7700", key)
//	sandbox, err := c.CreateSandbox(ctx, client.SandboxCreate{Template: "base"})
//	defer c.DeleteSandbox(context.WithoutCancel(ctx), sandbox.Id)
//	s, err := c.CreateSession(ctx, sandbox.Id, client.SessionCreate{Argv: &[]string{"python3", "-c", "print(6*7)"}})
//	for event, err := range c.Attach(ctx, s.Session, s.Attachment) {
//		// started, stdout, stderr, exit
//	}
//
// Requests that may be repeated are repeated when a part of the platform is restarting: reads, deletes, and creates, which carry an
// Idempotency-Key. Attach comes back by itself after a dropped connection and goes on where it was, with no byte lost or repeated.
//
// The package needs the standard library and the generated contract only. Every method obeys its context; a Client may be used by any
// number of goroutines.
package client
