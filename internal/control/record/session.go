package record

import "time"

// Spec is what a session runs.
type Spec struct {
	Argv  []string
	Cwd   string // empty: the user's home
	Env   map[string]string
	User  string // empty: the template's default user
	Stdin []byte
}

// Session is one command in a sandbox.
type Session struct {
	ID        string
	Sandbox   string
	Spec      Spec   // without environment and stdin when it's read for showing
	Execution string // fixed by the first attach; empty before
	CreatedAt time.Time
	StartedAt time.Time // of the first attach; zero before
}

// TokenHash is the SHA-256 of an attachment token.
type TokenHash [32]byte

// NewSession is the intent that a session's creation writes.
type NewSession struct {
	ID        string
	Project   string
	Sandbox   string
	Spec      Spec
	Token     TokenHash
	TokenLife time.Duration
	Request   Request
}

// Attachment is an issued token as the store knows it.
type Attachment struct {
	Session   string
	ExpiresAt time.Time
}

// Target is what an attachment token opens: the session, and its sandbox with the current execution.
type Target struct {
	Session   Session // with its whole spec
	Sandbox   string
	Desired   Desired
	Execution Execution // the sandbox's current one
	Expired   bool
	Revoked   bool
}
