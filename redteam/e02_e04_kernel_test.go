//go:build e2e

package redteam

import (
	"os"
	"strings"
	"testing"
	"time"
)

// attackTime is how long an attack may take after which its guest may answer no more.
const attackTime = 20 * time.Second

// TestE02Ports touches every port and pages of physical memory where devices are or nothing is. The machine may end or hang of it; nobody else does.
// Registers of the processor (MSRs) take a module of the guest's kernel, which it doesn't have.
func TestE02Ports(t *testing.T) {
	for _, attack := range []string{"ports read", "ports write", "physical all"} {
		t.Run(attack, func(t *testing.T) {
			box := armed(t)
			said := func() string { return "" }
			unharmed(t, func() {
				said = box.begin(t, "/tmp/attack "+attack)
				for end := time.Now().Add(attackTime); !strings.Contains(said(), "[") && time.Now().Before(end); { // or the guest hangs
					_, other := boxes(t)
					answers(t, other)
				}
				t.Logf("it says %s", clip(said()))
				if attack == "ports read" && !strings.Contains(said(), "ports:") {
					t.Errorf("no port was read, so nothing was attacked: %s", said())
				}
			})
			if strings.Contains(said(), "[") {
				box.contained(t)
			} else {
				t.Logf("the guest hangs, its sandbox is %s", box.state(t).State)
			}
			ask(t, "DELETE", platform.api+"/v1/sandboxes/"+box.id+"?wait=60s", platform.owner, "").want(t, 200)
		})
	}
}

// TestE04Kernel loads a module, starts another kernel and writes over the running one. All of that is the guest's own.
func TestE04Kernel(t *testing.T) {
	box := armed(t)
	version, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	unharmed(t, func() {
		said := box.begin(t, "/tmp/attack module all; cat /proc/version")
		eventually(t, callDeadline, "it has ended", func() bool { return strings.Contains(said(), "[") })
		t.Logf("it says %s", clip(said()))
		if !strings.Contains(said(), "init_module:") && !strings.Contains(said(), "[lost") {
			t.Errorf("nothing was attacked: %s", said())
		}
	})
	box.contained(t)
	if now, err := os.ReadFile("/proc/version"); err != nil || string(now) != string(version) {
		t.Errorf("the host's kernel is %q, %v", now, err)
	}
}
