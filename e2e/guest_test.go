//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/client"
)

// TestGuestIsAMachineOfItsOwn looks at what the issue promises about the guest, from inside.
func TestGuestIsAMachineOfItsOwn(t *testing.T) {
	s := create(t, "base")
	for name, c := range map[string]struct{ shell, want string }{
		"journal":       {`ls -d /proc/fs/jbd2/vda-*`, "/proc/fs/jbd2/vda-8\n"},
		"root is ext4":  {`awk '$2=="/"{print $3}' /proc/mounts | tail -1`, "ext4\n"},
		"tools":         {`for p in python3 pip git curl sudo; do command -v $p >/dev/null || echo missing $p; done`, ""},
		"loopback":      {`python3 -c "import socket as s; a=s.create_server(('127.0.0.1',0)); b=s.create_connection(a.getsockname()); c,_=a.accept(); b.send(b'x'); print(c.recv(1))"`, "b'x'\n"},
		"pid 1":         {`cat /proc/1/comm`, "spaced-guest\n"},
		"not in image":  {`find / -xdev -name 'spaced-guest*' | wc -l`, "0\n"},
		"writable disk": {`echo x > /root/x && sync && cat /root/x`, "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			runIn(t, s, client.SessionCreate{Shell: &c.shell, User: ptr("root")}).want(t, 0, c.want, "")
		})
	}
}

// TestBaseHasWhatPeopleUse does in the template that people use what they do, as its user.
func TestBaseHasWhatPeopleUse(t *testing.T) {
	s := create(t, "base")
	for shell, want := range map[string]string{
		"python3 -c 'print(6*7)'":                  "42\n",
		"node -p 6*7":                              "42\n",
		"sudo -n id -u":                            "0\n",
		"cd /tmp && git init -q r && ls -d r/.git": "r/.git\n",
		"curl --version | head -1 | cut -c1-4":     "curl\n",
		"pip --version | cut -c1-3":                "pip\n",
		"id -un; pwd":                              "user\n/home/user\n",
		"stat -f -c %T /":                          "ext2/ext3\n",
		"ps -o comm= -p 1":                         "spaced-guest\n",
	} {
		runIn(t, s, client.SessionCreate{Shell: &shell}).want(t, 0, want, "")
	}
}

// TestNoPacketLeaves tries to reach anything at all: every packet is dropped.
func TestNoPacketLeaves(t *testing.T) {
	s := create(t, "base")
	got := runIn(t, s, client.SessionCreate{User: ptr("root"), Shell: ptr(
		`dev=$(ls /sys/class/net | grep -v lo | head -1); echo "dev=$dev"
		 ip addr add 10.9.8.7/24 dev $dev; ip link set $dev up; ip route add default via 10.9.8.1 || true
		 timeout 5 curl -sS -m 3 http://10.9.8.1/ 2>&1; echo "curl=$?"`)})
	out := string(got.stdout)
	if strings.Contains(out, "dev=\n") {
		t.Errorf("the guest has no network device: %q", out)
	}
	if strings.Contains(out, "curl=0") {
		t.Errorf("the guest reached an address: %q", out)
	}
}

// TestCloneIsFresh compares two sandboxes of one base snapshot: clock right, random bytes different, disks apart.
func TestCloneIsFresh(t *testing.T) {
	a, b := create(t, "mini"), create(t, "mini")
	draw := client.SessionCreate{Shell: ptr(`head -c 32 /dev/urandom | sha256sum; hostname; cat /proc/sys/kernel/random/uuid`)}
	x, y := runIn(t, a, draw), runIn(t, b, draw)
	for i, line := range strings.Split(strings.TrimSpace(string(x.stdout)), "\n") {
		if other := strings.Split(string(y.stdout), "\n")[i]; line == other {
			t.Errorf("line %d is the same in both clones: %s", i+1, line)
		}
	}
	before := time.Now()
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(runIn(t, a, client.SessionCreate{Shell: ptr("date +%s")}).stdout)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if at := time.Unix(seconds, 0); at.Before(before.Add(-2*time.Second)) || at.After(time.Now().Add(2*time.Second)) {
		t.Errorf("the guest's clock says %s, the host's %s", at, before)
	}
	runIn(t, a, client.SessionCreate{User: ptr("root"), Shell: ptr("echo mine > /mine")}).want(t, 0, "", "")
	if got := runIn(t, b, client.SessionCreate{Shell: ptr("cat /mine")}); got.exit.Code == 0 {
		t.Error("a clone sees another's file")
	}
}
