package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestMain makes the test binary be the CLI when a play calls it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"space": func() { os.Exit(Main(context.Background(), os.Args[1:])) }})
}

// TestPlays runs each play in testdata against a platform of its own.
func TestPlays(t *testing.T) {
	type platformKey struct{}
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			f := newFake(t)
			e.Values[platformKey{}], e.Values[begunKey{}] = f, &begun{}
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("URL", f.URL)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else every process of a play lingers for a second under the race detector
			return Remember(func(name string) string { return e.Getenv(name) }, "demo", Entry{URL: f.URL, APIKey: fakeKey})
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": func(ts *testscript.TestScript, _ bool, args []string) { // status N CMD…: CMD ends with exit code N
				wantStatus(ts, args)
			},
			"started": func(ts *testscript.TestScript, _ bool, _ []string) { // until the platform has started a command that hangs
				<-ts.Value(platformKey{}).(*fake).started
			},
			"tokens": func(ts *testscript.TestScript, _ bool, args []string) { // tokens N: so many tokens of sandboxes are valid
				f := ts.Value(platformKey{}).(*fake)
				f.mu.Lock()
				defer f.mu.Unlock()
				if got := fmt.Sprint(len(f.tokens)); got != args[0] {
					ts.Fatalf("%s tokens are valid, want %s, of %d that were issued", got, args[0], f.issued)
				}
			},
			"issued": func(ts *testscript.TestScript, _ bool, args []string) { // issued N: so many tokens of sandboxes were made
				f := ts.Value(platformKey{}).(*fake)
				f.mu.Lock()
				defer f.mu.Unlock()
				if got := fmt.Sprint(f.issued); got != args[0] {
					ts.Fatalf("%s tokens were issued, want %s", got, args[0])
				}
			},
			"told": func(ts *testscript.TestScript, _ bool, args []string) { // told SIGNAL: until a stubborn command has got it
				if got := <-ts.Value(platformKey{}).(*fake).told; got != args[0] {
					ts.Fatalf("the command was told of %s, want %s", got, args[0])
				}
			},
			"begin": func(ts *testscript.TestScript, _ bool, args []string) { // begin CMD…: starts CMD, which isn't waited for
				begin(ts, args)
			},
			"signal": func(ts *testscript.TestScript, _ bool, args []string) { // signal NAME: sends it to what was begun
				ts.Check(ts.Value(begunKey{}).(*begun).Process.Signal(unix.SignalNum(args[0])))
			},
			"ended": func(ts *testscript.TestScript, _ bool, args []string) { // ended N: what was begun ends with exit code N, soon
				ended(ts, args[0])
			},
		},
	})
}
