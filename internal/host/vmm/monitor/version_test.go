package monitor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// script makes a program of a shell's commands.
func script(t *testing.T, commands string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+commands+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAProgramSaysItsVersion(t *testing.T) {
	if b, err := monitor.AskVersion(t.Context(), script(t, `echo "$1 1.2.3"`)); err != nil || string(b) != "--version 1.2.3\n" {
		t.Errorf("it says %q, %v", b, err)
	}
	for commands, want := range map[string]string{"exit 3": "exit status 3", "yes": "more than 16384 bytes"} {
		if b, err := monitor.AskVersion(t.Context(), script(t, commands)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", commands, b, err, want)
		}
	}
}

// A program that says nothing holds nobody up, nor does a child of it that has its output.
func TestAProgramThatDoesNotSayItsVersionIsNotWaitedFor(t *testing.T) {
	const limit = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begun := time.Now()
	child := filepath.Join(t.TempDir(), "child")
	if b, err := monitor.AskVersion(ctx, script(t, "sleep 60 & echo $! >"+child+"; wait")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it says %q, %v", b, err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	pid, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C { // one that nobody has waited for yet has no command line
		if line, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "cmdline")); err != nil || len(line) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("its child %s is still there", pid)
		}
	}
}
