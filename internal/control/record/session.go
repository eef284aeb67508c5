package record

import "time"

// Spec is what a session runs.
type Spec struct {
	Argv  []string
	Cwd   string // empty: the user's home
	Env   map[string]string
	User  string // empty: the template's default user
	Stdin []byte

	OpenStdin bool          // it takes more than Stdin, until it's closed
	TTY       Terminal      // zero: none
	Timeout   time.Duration // zero: none
}

// Terminal is the size of a terminal.
type Terminal struct{ Rows, Cols uint32 }

// Session is one command in a sandbox.
type Session struct {
	ID        string
	Sandbox   string
	Spec      Spec   // without environment and stdin when it's read for showing
	Execution string // fixed by the first attach; empty before
	CreatedAt time.Time
	StartedAt time.Time   // of the first attach; zero before
	End       *SessionEnd // nil: it may be running, or its end isn't known yet
}

// SessionEnd is how a session ended: by itself with a code, by a signal, without a start (then Error says why), or nobody knows.
type SessionEnd struct {
	Session     string
	At          time.Time // by the guest's clock; of a lost one by the node's
	Code        *int32    // nil with a signal, and of a lost one
	Signal      string    // SIGKILL
	Error       string    // why it couldn't be started, or was lost
	TimedOut    bool      // its time was over, and it was killed for that
	Stopped     bool      // it ended while its sandbox was being stopped
	Lost        bool      // its machine is gone, and how it would have ended isn't known
	OutputBytes int64     // length of its log; of a lost one 0 if nobody knows
}

// TokenHash is the SHA-256 of an attachment token or a sandbox token.
type TokenHash [32]byte

// EndedToken is a token that opens nothing any more.
type EndedToken struct {
	Hash    TokenHash
	Revoked bool // else it has expired
}

// NewSession is the intent that a session's creation writes.
type NewSession struct {
	ID        string
	Project   string
	Sandbox   string
	Spec      Spec
	Token     TokenHash
	TokenLife time.Duration
	IssuedBy  string // tok_…, if the holder of a sandbox token creates it; the token ends with that
	Execution string // to which it's fixed if that is still the current one of its sandbox, which is to run; empty: the first attach fixes it
	Request   Request
}

// CreatedSession is what a creation came to.
type CreatedSession struct {
	ID        string
	Fresh     bool // false: an earlier request with the same Idempotency-Key has made it; nothing else is known of it
	Fixed     bool // to the execution that was given
	CreatedAt time.Time
	ExpiresAt time.Time // of the attachment token
}

// Attachment is an issued token as the store knows it.
type Attachment struct {
	Session   string
	ExpiresAt time.Time
}

// Target is what a token opens: a session, and its sandbox with the current execution. A sandbox token that was asked for something else
// than a session of its sandbox has none.
type Target struct {
	Session      Session // with its whole spec
	SessionEnded bool    // how it ended is recorded
	Sandbox      string
	Project      string
	AutoWake     bool // of the sandbox
	Desired      Desired
	Execution    Execution // the sandbox's current one
	Expired      bool
	Revoked      bool
	Kept         bool // the session has ended with its execution: what the sandbox has kept of it is read, by the current one's route
}

// SandboxToken is an issued sandbox token, without the secret.
type SandboxToken struct {
	ID        string
	Sandbox   string
	Name      string // empty: none
	CreatedAt time.Time
	ExpiresAt time.Time
}

// NewSandboxToken is a sandbox token to be stored.
type NewSandboxToken struct {
	ID      string
	Project string
	Sandbox string
	Name    string
	Hash    TokenHash
	Life    time.Duration
	Request Request
}

// Bearer is whom a sandbox token stands for.
type Bearer struct {
	Token   string // tok_…
	Project string
	Sandbox string
	Expired bool
	Revoked bool
}
