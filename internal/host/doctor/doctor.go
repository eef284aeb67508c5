// Package doctor looks at a machine and says whether the platform will work on it: for each thing that matters its state, what that
// means, and the command that mends it.
//
// Each check has two halves. One looks at the machine and collects facts; it changes nothing that it doesn't undo. The other is pure: it
// turns facts into a verdict, and tables test it for machines that nobody has at hand.
package doctor

import (
	"context"
	"time"

	"github.com/space-platform/space/internal/instance"
)

// State is how a check ended.
type State string

// The states. Only fail keeps the platform from working.
const (
	OK   State = "ok"
	Info State = "info" // worth knowing, nothing to do
	Warn State = "warn" // it works, with less than there could be
	Fail State = "fail"
)

// Finding is what a check found.
type Finding struct {
	Code    string `json:"code"` // stable
	Title   string `json:"title"`
	State   State  `json:"state"`
	Detail  string `json:"detail"`            // what was found
	Meaning string `json:"meaning,omitempty"` // what follows from it, unless all is well
	Fix     string `json:"fix,omitempty"`     // a command for a shell of Debian
}

// Report is what the doctor says.
type Report struct {
	Ready    bool      `json:"ready"` // 'space up' will work
	Findings []Finding `json:"findings"`
}

// Options say whose machine is looked at, and how.
type Options struct {
	Instance instance.Instance // need not be set up
	Config   instance.Config
	CacheDir string // keeps the answers about KVM and Firecracker until the next boot, a no for a while; "" asks anew each time
	// BootKVM boots a tiny guest with KVM and returns nil if it ran as fast as hardware makes it. nil: this package's BootGuest.
	BootKVM func(ctx context.Context) error
}

// checkTimeout bounds one check; a device that hangs must not hang the doctor.
const checkTimeout = 15 * time.Second

// check is one entry of the list in checks.go.
type check struct {
	code, title string
	look        func(ctx context.Context, o Options) verdict
}

// verdict is what the pure half of a check returns.
type verdict struct {
	state                State
	detail, meaning, fix string
}

// Run does all checks, in order.
func Run(ctx context.Context, o Options) Report {
	r := Report{Ready: true}
	for _, c := range checks {
		f := c.run(ctx, o)
		r.Ready = r.Ready && f.State != Fail
		r.Findings = append(r.Findings, f)
	}
	return r
}

func (c check) run(ctx context.Context, o Options) Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	v := c.look(ctx, o)
	return Finding{Code: c.code, Title: c.title, State: v.state, Detail: v.detail, Meaning: v.meaning, Fix: v.fix}
}

func fine(detail string) verdict { return verdict{state: OK, detail: detail} }
