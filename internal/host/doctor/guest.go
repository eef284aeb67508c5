package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// romBytes is the size of the tiny guest, which lies at the end of the address space's first 4 GiB.
	romBytes = 64 << 10
	// guestCount is how far the guest counts: 50 ms on hardware. What only looks like KVM but interprets instructions needs minutes.
	guestCount = 100_000_000
	// guestDeadline is how long it may take with hardware virtualisation.
	guestDeadline = 3 * time.Second
	// debugPort ends QEMU when the guest writes to it, with twice the value and one more as the exit code.
	debugPort   = 0xf4
	guestAnswer = 0x15
	guestExit   = guestAnswer<<1 | 1
)

// BootGuest boots the smallest guest that proves something: it counts to a hundred million and says that it's done. It needs QEMU and
// nothing else, no kernel and no disk. acceleration is kvm or tcg, limit how long all of it may take.
func BootGuest(ctx context.Context, program, acceleration string, limit time.Duration) error {
	dir, err := os.MkdirTemp("", "space-guest-")
	if err != nil {
		return fmt.Errorf("boot a tiny guest: %w", err)
	}
	defer os.RemoveAll(dir)
	rom := filepath.Join(dir, "rom")
	if err := os.WriteFile(rom, guestROM(), 0o600); err != nil {
		return fmt.Errorf("boot a tiny guest: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, "-M", "microvm,acpi=off", "-accel", acceleration, "-m", "16M", "-nodefaults", "-no-user-config",
		"-display", "none", "-bios", rom, "-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=1", debugPort),
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	return guestResult(ctx.Err(), err, string(out), limit)
}

// guestResult says what an end of QEMU means.
func guestResult(ctxErr, err error, output string, limit time.Duration) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(ctxErr, context.DeadlineExceeded):
		return fmt.Errorf("a guest that counts to a hundred million wasn't done after %s", limit)
	case ctxErr != nil:
		return ctxErr
	case errors.As(err, &exit) && exit.ExitCode() == guestExit:
		return nil
	case err == nil:
		return errors.New("a guest ended without having counted")
	default:
		return fmt.Errorf("a guest didn't run: %w: %s", err, strings.TrimSpace(lastLine(output)))
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// guestROM is the guest, in real mode:
//
//	reset:  jmp start            ; at the last 16 bytes
//	start:  cli
//	        mov ecx, guestCount
//	loop:   dec ecx
//	        jnz loop
//	        mov al, guestAnswer
//	        out debugPort, al
//	        hlt
func guestROM() []byte {
	const reset, halt = romBytes - 16, 0xf4
	rom := make([]byte, romBytes)
	for i := range rom {
		rom[i] = halt
	}
	start := []byte{0xfa, 0x66, 0xb9}
	start = binary.LittleEndian.AppendUint32(start, guestCount)
	start = append(start, 0x66, 0x49, 0x75, 0xfc, 0xb0, guestAnswer, 0xe6, debugPort, halt)
	copy(rom, start)
	copy(rom[reset:], binary.LittleEndian.AppendUint16([]byte{0xe9}, 16-3)) // to the next byte after the end, which is the first
	return rom
}
