//go:build vm

package host_test

import (
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
)

// TestBase builds the template that people use, and does in it what they do.
func TestBase(t *testing.T) {
	r := newRig(t)
	began := time.Now()
	base := r.template("base")
	t.Logf("base was built in %s", time.Since(began))
	route := r.route()
	t.Logf("ensure → running: %s", r.ensure(base, route))
	for command, want := range map[string]string{
		"python3 -c 'print(6*7)'":                  "42\n",
		"sudo -n id -u":                            "0\n",
		"cd /tmp && git init -q r && ls -d r/.git": "r/.git\n",
		"curl --version | cut -c1-4 | head -1":     "curl\n",
		"pip --version | cut -c1-3":                "pip\n",
		"id -un; hostname; pwd":                    "user\nsbx-" + space.HostLabel(route.Sandbox) + "\n/home/user\n",
		"stat -f -c %T /":                          "ext2/ext3\n",
		"ps -o comm= -p 1":                         "",
	} {
		began := time.Now()
		got := r.run(route, "/bin/sh", "-c", command)
		if want != "" && got != want || got == "" {
			t.Errorf("%s: printed %q, want %q", command, got, want)
		}
		t.Logf("%s: %s, %s", command, strings.TrimSpace(got), time.Since(began).Round(time.Millisecond))
	}
	r.remove(route)
	r.checkNothingLeft()
}
