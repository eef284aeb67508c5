package doctor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/instance"
)

// firecrackerCacheName has what was found out about Firecracker, and plainCacheName about it without the configuration's CPU template, if it doesn't work with that.
const (
	firecrackerCacheName = "firecracker.json"
	plainCacheName       = "firecracker-without-template.json"
)

// firecrackerFacts are what is known about it.
type firecrackerFacts struct {
	version string   // "" if it isn't there, or can't be used whatever the machine
	broken  string   // why it can't be used; "" if a guest boots with it, or if none is installed
	kvm     bool     // /dev/kvm is there
	named   bool     // the configuration says where it is
	forced  bool     // the configuration asks for it, by name or by what only it does
	other   string   // another driver that the configuration asks for; "" for none
	keys    []string // what the configuration says that only it does
	chosen  string   // what the configuration says of it, for people
	config  string   // the configuration's file
	cpu     string   // why the CPU template can't be read; "" if it can, or if there is none
	hides   bool     // a CPU template hides from guests what they should know; see hidesDefences
}

func lookFirecracker(ctx context.Context, o Options) verdict {
	f := firecrackerFacts{keys: o.Config.FirecrackerOnly(), chosen: chosen(o.Config), named: !installed(o.Config), config: o.Instance.ConfigFile()}
	f.hides = o.Config.CPUTemplate != "" && hidesDefences(release())
	f.forced = o.Config.Driver == firecracker.Name || len(f.keys) > 0
	if o.Config.Driver != firecracker.Name {
		f.other = o.Config.Driver
	}
	_, err := os.Stat(kvmDevice)
	f.kvm = err == nil
	f.version, err = Firecracker(ctx, o)
	switch {
	case err == nil || errors.Is(err, ErrNotInstalled):
	case errors.Is(err, errTemplate):
		f.cpu = err.Error()
	default:
		f.broken = err.Error()
	}
	return judgeFirecracker(f)
}

const setupFirecracker = "space setup firecracker"

func judgeFirecracker(f firecrackerFacts) verdict {
	state, meaning := Info, "machines run with QEMU"
	if f.forced {
		state, meaning = Fail, "the configuration asks for it: no machine will start"
	}
	switch {
	case f.other != "" && len(f.keys) > 0:
		return verdict{Fail, fmt.Sprintf("the configuration chooses %s, which doesn't do what it says with %s", f.other, strings.Join(f.keys, ", ")), "no machine will start", ""}
	case f.cpu != "":
		return verdict{state, f.cpu, meaning, "sed -i /^cpu_template/d " + f.config}
	case f.version == "" && f.broken == "":
		return verdict{state, "not installed", meaning, setupFirecracker}
	case f.version == "":
		if !f.forced {
			state = Warn
		}
		return verdict{state, f.broken, meaning, f.replace()}
	case f.broken == "" && f.hides:
		return verdict{Warn, fmt.Sprintf("a guest boots with version %s%s", f.version, f.chosen), hiddenDefences, "sed -i /^cpu_template/d " + f.config}
	case f.broken == "":
		return fine(fmt.Sprintf("a guest boots with version %s%s", f.version, f.chosen))
	case !f.kvm:
		return verdict{state, fmt.Sprintf("version %s can't be used: there is no %s", f.version, kvmDevice), meaning, loadKVM}
	default:
		return verdict{state, fmt.Sprintf("version %s can't be used: %s", f.version, f.broken), meaning, readKVM}
	}
}

// hiddenDefences is what hidesDefences means.
const hiddenDefences = "from Linux 6.13 on, guests with a CPU template that passes on bits of the host's MSRs may not see how the processor defends itself against speculative execution"

// hidesDefences tells whether a host's kernel is one with which Firecracker reads the MSRs that a template changes before KVM says what is in them. It's
// mended by Firecracker's pull request 6120, which is in no release that the driver takes.
func hidesDefences(release string) bool {
	major, minor, ok := parseRelease(release)
	return ok && !before(major, minor, 6, 13)
}

// replace is the command that brings one which is supported, and has the configuration name no other.
func (f firecrackerFacts) replace() string {
	if !f.named {
		return setupFirecracker
	}
	return fmt.Sprintf("sed -i -E '/^(firecracker|jailer)\\b/d' %s && %s", f.config, setupFirecracker)
}

// chosen tells what the configuration says of machines' processors and networks; "" for nothing.
func chosen(c instance.Config) string {
	var all []string
	if c.CPUTemplate != "" {
		all = append(all, "CPU template "+c.CPUTemplate)
	}
	for _, l := range []struct {
		word  string
		bytes int64
	}{{"receive", c.NetworkReceiveBytes}, {"send", c.NetworkSendBytes}} {
		if l.bytes > 0 {
			all = append(all, fmt.Sprintf("networks %s %d bytes/s at most", l.word, l.bytes))
		}
	}
	return strings.Join(append([]string{""}, all...), "; ")
}

// ErrNotInstalled says that there is no Firecracker, and that the configuration names none.
var ErrNotInstalled = errors.New("Firecracker isn't installed")

// errTemplate says that a CPU template can't be read, or that a guest boots only without it.
var errTemplate = errors.New("the configuration's cpu_template is of no use")

// installed tells whether the Firecracker in question is the one that 'space setup firecracker' installs.
func installed(c instance.Config) bool {
	return strings.HasPrefix(c.Firecracker, instance.FirecrackerCurrent+"/")
}

// Firecracker returns the version of the Firecracker and the jailer that the configuration names, and nil if a guest boots with it. ErrNotInstalled is
// returned if it names none and none is installed; the version is empty if the two aren't of one release that is supported. The answer is cached as that
// about KVM is.
func Firecracker(ctx context.Context, o Options) (version string, err error) {
	cpu, err := firecracker.ReadTemplate(o.Config.CPUTemplate)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errTemplate, err)
	}
	if _, err := os.Stat(o.Config.Firecracker); errors.Is(err, fs.ErrNotExist) && installed(o.Config) {
		return "", ErrNotInstalled
	}
	version, err = firecracker.Version(ctx, o.Config.Firecracker, o.Config.Jailer)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(kvmDevice); err != nil {
		return version, fmt.Errorf("there is no %s", kvmDevice)
	}
	if unix.Access(kvmDevice, unix.R_OK|unix.W_OK) != nil {
		return version, fmt.Errorf("%s can't be opened by uid %d", kvmDevice, os.Geteuid())
	}
	return version, boots(ctx, o, version, cpu)
}

// boots returns nil if a guest does, and errTemplate if it does without the CPU template only, whose text is cpu.
func boots(ctx context.Context, o Options, version string, cpu []byte) error {
	err := bootsWith(ctx, o, version, cpu, firecrackerCacheName)
	if err == nil || len(cpu) == 0 || ctx.Err() != nil {
		return err
	}
	o.Config.CPUTemplate = ""
	if bootsWith(ctx, o, version, nil, plainCacheName) != nil {
		return err
	}
	return fmt.Errorf("%w: a guest boots without it; with it: %w", errTemplate, err)
}

// bootsWith returns nil if a guest does with a CPU template's text, or did when the cache's file was written.
func bootsWith(ctx context.Context, o Options, version string, cpu []byte, cache string) error {
	key := answerTo("Firecracker "+version, append(guestELF(), cpu...))
	if a, ok := key.cached(o.CacheDir, cache); ok {
		return a.err()
	}
	err := BootFirecracker(ctx, o.Config.Firecracker, o.Config.CPUTemplate, guestDeadline)
	if ctx.Err() == nil { // not when the caller gave up
		key.keep(o.CacheDir, cache, err)
	}
	return err
}

// BootFirecracker boots the smallest guest that proves something, as BootGuest does with QEMU. template is the path of a CPU template; "" for none.
func BootFirecracker(ctx context.Context, program, template string, deadline time.Duration) error {
	dir, err := os.MkdirTemp("", "space-guest-")
	if err != nil {
		return fmt.Errorf("boot a tiny guest: %w", err)
	}
	defer os.RemoveAll(dir)
	kernel, config := filepath.Join(dir, "kernel"), filepath.Join(dir, "config.json")
	machine := map[string]any{
		"boot-source":    map[string]string{"kernel_image_path": kernel},
		"machine-config": map[string]int{"vcpu_count": 1, "mem_size_mib": 32},
		"drives":         []int{},
	}
	if template != "" {
		machine["cpu-config"] = template
	}
	text, err := json.Marshal(machine)
	if err == nil {
		err = errors.Join(os.WriteFile(kernel, guestELF(), 0o600), os.WriteFile(config, text, 0o600))
	}
	if err != nil {
		return fmt.Errorf("boot a tiny guest: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	c := exec.CommandContext(ctx, program, "--no-api", "--config-file", config)
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	return firecrackerResult(ctx.Err(), err, string(out), deadline)
}

// guestWord is what the guest writes to its serial port when it has counted. Firecracker ends in the same way when a guest crashes.
const guestWord = "counted"

// firecrackerResult says what an end of Firecracker means.
func firecrackerResult(ctxErr, err error, output string, deadline time.Duration) error {
	switch {
	case errors.Is(ctxErr, context.DeadlineExceeded):
		return fmt.Errorf("a guest that counts to a hundred million wasn't done after %s", deadline)
	case ctxErr != nil:
		return ctxErr
	case err != nil:
		return fmt.Errorf("a guest didn't run: %w: %s", err, strings.TrimSpace(lastLine(output)))
	case !strings.Contains(output, guestWord):
		return errors.New("a guest ended without having counted")
	default:
		return nil
	}
}

// guestELF is the guest, in long mode, as a kernel at its first megabyte:
//
//	        mov ecx, guestCount
//	loop:   dec ecx
//	        jnz loop
//	        mov dx, 0x3f8        ; the serial port
//	        mov al, 'c' …        ; each letter of guestWord
//	        out dx, al
//	        mov al, 0xfe         ; the keyboard controller's reset
//	        out 0x64, al
//	        hlt
func guestELF() []byte {
	const header, entry, load = 64, 56, 1 << 20
	code := binary.LittleEndian.AppendUint32([]byte{0xb9}, guestCount)
	code = append(code, 0xff, 0xc9, 0x75, 0xfc, 0x66, 0xba, 0xf8, 0x03)
	for _, letter := range []byte(guestWord) {
		code = append(code, 0xb0, letter, 0xee)
	}
	code = append(code, 0xb0, 0xfe, 0xe6, 0x64, 0xf4)
	le := binary.LittleEndian
	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0} // 64 bits, little endian
	b = le.AppendUint16(b, 2)                                            // an executable
	b = le.AppendUint16(b, 62)                                           // for x86-64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, load)   // where it begins
	b = le.AppendUint64(b, header) // its one program header
	b = le.AppendUint64(b, 0)      // no section headers
	b = le.AppendUint32(b, 0)
	for _, n := range []uint16{header, entry, 1, 64, 0, 0} {
		b = le.AppendUint16(b, n)
	}
	b = le.AppendUint32(b, 1) // to be loaded
	b = le.AppendUint32(b, 5) // readable and executable
	for _, n := range []uint64{header + entry, load, load, uint64(len(code)), uint64(len(code)), 4096} {
		b = le.AppendUint64(b, n)
	}
	return append(b, code...)
}
