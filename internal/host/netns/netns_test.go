package netns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/host/netns"
	"github.com/space-platform/space/internal/host/thread"
)

func create(t testing.TB, label string) string {
	t.Helper()
	name := fmt.Sprintf("space-nstest%d-%s", os.Getpid(), label)
	t.Cleanup(func() {
		if err := netns.Remove(name); err != nil {
			t.Error(err)
		}
	})
	if err := netns.Create(name, netns.Tap{Name: "tap0", Owner: 301_234}); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestItIsThereAndGoesAway(t *testing.T) {
	name := create(t, "life")
	if err := netns.Create(name, netns.Tap{Name: "tap0"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create = %v, want ErrExist", err)
	}
	names, err := netns.List(name[:len(name)-4])
	if err != nil || !slices.Equal(names, []string{name}) || !netns.Exists(name) {
		t.Errorf("List = %v, %v", names, err)
	}
	if out, err := exec.Command("ip", "netns", "list").CombinedOutput(); err != nil || !strings.Contains(string(out), name) {
		t.Errorf("ip netns doesn't show it: %v, %s", err, out)
	}
	for range 2 {
		if err := netns.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := netns.List(name); err != nil || len(names) > 0 || netns.Exists(name) {
		t.Errorf("after Remove: %v, %v", names, err)
	}
}

// TestWhatItHolds asks the tools that an operator would ask.
func TestWhatItHolds(t *testing.T) {
	name := create(t, "holds")
	out, err := exec.Command("ip", "-n", name, "-d", "addr").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"lo: <LOOPBACK,UP", "tap0: <", "persist on", "user 301234", "vnet_hdr on"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("ip addr lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "inet6") || strings.Contains(string(out), "global") {
		t.Errorf("it has addresses:\n%s", out)
	}
	out, err = exec.Command("ip", "netns", "exec", name, "nft", "list", "ruleset").CombinedOutput()
	if err != nil || strings.Count(string(out), "policy drop;") != 4 {
		t.Errorf("the filter: %v\n%s", err, out)
	}
}

// header precedes each frame on the tap: no offload.
var header = make([]byte, 10)

// arp asks who has 127.0.0.1: something that a kernel would answer for an address of its own.
var arp = append(append(append([]byte{}, header...),
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 6, 0, 0xac, 0x10, 0, 2, 8, 6, // to all, from the guest, ARP
	0, 1, 8, 0, 6, 4, 0, 1, 6, 0, 0xac, 0x10, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 127, 0, 0, 1), make([]byte, 18)...)

func TestEveryFrameOfTheGuestIsDroppedAndCounted(t *testing.T) {
	name := create(t, "drop")
	tap, err := netns.OpenTap(netns.Path(name), "tap0")
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	ip := append(append([]byte{}, header...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 6, 0, 0xac, 0x10, 0, 2, 8, 0, 0x45, 0, 0, 28)
	ip = append(ip, make([]byte, 46)...)
	for _, frame := range [][]byte{arp, ip, arp} {
		if _, err := tap.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	got, err := netns.Drops(netns.Path(name))
	want := map[string]uint64{"ingress": 3, "input": 0, "forward": 0, "output": 0}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("drops = %v, %v, want %v", got, err, want)
	}
	sent := uint64(len(arp)+len(ip)+len(arp)) - 3*uint64(len(header))
	if got, err := netns.ReadTraffic(name, "tap0"); err != nil || got != (netns.Traffic{Received: sent}) {
		t.Errorf("the traffic = %+v, %v, want %d received", got, err, sent)
	}
	if _, err := netns.ReadTraffic(name, "tap1"); err == nil {
		t.Error("the counters of a tap that isn't there were read")
	}
	tap.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := tap.Read(make([]byte, 2048)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer of %d bytes came, %v", n, err)
	}
	if _, err := netns.OpenTap(netns.Path(name), "tap0"); err == nil {
		t.Error("a second descriptor was attached")
	}
	if _, err := netns.OpenTap(netns.Path(name), "tap1"); err == nil {
		t.Error("a tap that wasn't there was opened")
	}
}

func TestTheFilterOutlivesTheDescriptor(t *testing.T) {
	name := create(t, "again")
	for want := range uint64(3) {
		tap, err := netns.OpenTap(netns.Path(name), "tap0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tap.Write(arp); err != nil {
			t.Fatal(err)
		}
		tap.Close()
		if got, err := netns.Drops(netns.Path(name)); err != nil || got["ingress"] != want+1 {
			t.Errorf("after opening %d: drops = %v, %v", want+1, got, err)
		}
	}
}

func TestLoopbackWorksInside(t *testing.T) {
	name := create(t, "lo")
	err := thread.Run(func() error {
		if err := netns.Enter(netns.Path(name)); err != nil {
			return err
		}
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		c, err := net.DialTimeout("tcp4", l.Addr().String(), 2*time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, name := range []string{"", "..", "../x", "a/b", ".a", strings.Repeat("a", 129)} {
		if netns.Create(name, netns.Tap{Name: "tap0"}) == nil || netns.Remove(name) == nil || netns.Exists(name) {
			t.Errorf("name %q was accepted", name)
		}
	}
	name := fmt.Sprintf("space-nstest%d-bad", os.Getpid())
	if err := netns.Create(name, netns.Tap{Name: "a name that is too long"}); err == nil {
		t.Error("a tap's name of 23 bytes was accepted")
	}
	if names, err := netns.List(name); err != nil || len(names) > 0 {
		t.Errorf("a failed Create left %v, %v", names, err)
	}
}

func BenchmarkCreateRemove(b *testing.B) {
	name := fmt.Sprintf("space-nstest%d-bench", os.Getpid())
	b.Cleanup(func() { netns.Remove(name) })
	for b.Loop() {
		if err := netns.Create(name, netns.Tap{Name: "tap0", Owner: 301_234}); err != nil {
			b.Fatal(err)
		}
		if err := netns.Remove(name); err != nil {
			b.Fatal(err)
		}
	}
}
