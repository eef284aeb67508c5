package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/doctor"
	"github.com/space-platform/space/internal/host/netns"
	"github.com/space-platform/space/internal/instance"
)

const qemu = "/usr/bin/qemu-system-x86_64"

// patience is for emulation on a machine that does other things.
const patience = time.Minute

func TestATinyGuestRunsToItsEnd(t *testing.T) {
	if err := doctor.BootGuest(t.Context(), qemu, "tcg", patience); err != nil {
		t.Error(err)
	}
	if err := doctor.BootGuest(t.Context(), "/usr/bin/false", "tcg", patience); err == nil {
		t.Error("a program that isn't QEMU booted a guest")
	}
	if err := doctor.BootGuest(t.Context(), qemu, "nothing", patience); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("without acceleration: %v, want QEMU's own words", err)
	}
}

// options are a machine's whose KVM is as told; asked counts.
func options(t *testing.T, kvm error) (o doctor.Options, asked *int) {
	asked = new(int)
	return doctor.Options{
		Instance: instance.Instance{Name: "doctortest"}, CacheDir: t.TempDir(),
		BootKVM: func(context.Context) error { *asked++; return kvm },
	}, asked
}

func TestThisMachineIsLookedAtAndLeftAsItWas(t *testing.T) {
	o, _ := options(t, errors.New("it stands still"))
	r := doctor.Run(t.Context(), o)
	found := map[string]doctor.Finding{}
	for _, f := range r.Findings {
		found[f.Code] = f
	}
	for _, code := range []string{"root", "kernel", "cgroups", "tun", "nftables", "btrfs", "qemu"} {
		if f := found[code]; f.State == doctor.Fail || f.State == "" {
			t.Errorf("%s: %+v, on a machine where the tests run", code, f)
		}
	}
	if left, err := netns.List(o.Instance.Prefix()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil || strings.Count(text.String(), "\n") < len(r.Findings) {
		t.Errorf("table: %v\n%s", err, text.String())
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"code":"kvm"`) {
		t.Errorf("JSON: %s, %v", b, err)
	}
}

func TestTheAnswerAboutKVMIsKept(t *testing.T) {
	if _, err := os.Stat("/dev/kvm"); errors.Is(err, fs.ErrNotExist) {
		o, asked := options(t, nil)
		if err := doctor.KVM(t.Context(), o); !errors.Is(err, fs.ErrNotExist) || *asked > 0 {
			t.Errorf("without a device: %v, asked %d times", err, *asked)
		}
		return
	}
	for _, want := range []error{nil, errors.New("it stands still")} {
		o, asked := options(t, want)
		for range 2 {
			if got := doctor.KVM(t.Context(), o); (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
				t.Errorf("KVM = %v, want %v", got, want)
			}
		}
		if *asked != 1 {
			t.Errorf("a guest was booted %d times", *asked)
		}
	}
}

func TestAnAbandonedQuestionIsNotKept(t *testing.T) {
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return // nothing would be asked
	}
	ctx, cancel := context.WithCancel(t.Context())
	o, asked := options(t, nil)
	o.BootKVM = func(context.Context) error { *asked++; cancel(); return context.Canceled }
	if err := doctor.KVM(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("KVM = %v", err)
	}
	o.BootKVM = func(context.Context) error { *asked++; return nil }
	if err := doctor.KVM(t.Context(), o); err != nil || *asked != 2 {
		t.Errorf("KVM = %v, asked %d times", err, *asked)
	}
}
