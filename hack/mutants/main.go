// Mutants proves that the tests can fail: each entry of a committed list is a fault that somebody could make, and names the test that must find
// it. The tree isn't touched; the compiler is given the mutated file in place of the real one.
//
// A mutant is found when its test passes without it, and fails with it, by that test's own word. One that doesn't compile, or whose text isn't
// in its file exactly once, is a failure of the list.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// How long one run of a test may take, and the compiler beside it.
const (
	unitTimeout    = time.Minute
	e2eTimeout     = 20 * time.Minute
	compileTimeout = 10 * time.Minute
)

func main() {
	long := flag.Bool("long", false, "those that need a whole platform, too")
	match := flag.String("run", "", "only mutants whose names match the expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survivors, err := run(ctx, *long, *match)
	if err == nil && survivors > 0 {
		err = fmt.Errorf("%d of them were not found by their tests", survivors)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, long bool, match string) (survivors int, err error) {
	only, err := regexp.Compile(match)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	sound := map[string]error{} // tests that were run without a mutant
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "MUTANT\tKIND\tTEST\tRESULT\tSECONDS")
	for n, m := range mutants {
		if m.kind == e2e && !long || !only.MatchString(m.name) {
			continue
		}
		began := time.Now()
		place := filepath.Join(dir, fmt.Sprint(n))
		result := "found"
		if err := m.hunt(ctx, place, sound); err != nil {
			survivors++
			result = "NOT FOUND"
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.name, err)
		}
		if ctx.Err() != nil {
			return survivors, context.Cause(ctx)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, result)
		fmt.Fprintf(table, "%s\t%s\t%s %s\t%s\t%.1f\n", m.name, m.kind, m.pkg, m.test, result, time.Since(began).Seconds())
	}
	return survivors, nil
}

// hunt returns why the mutant isn't found; nil if it is. Each test is run without a mutant once.
func (m mutant) hunt(ctx context.Context, dir string, sound map[string]error) error {
	overlay, err := m.overlay(dir)
	if err != nil {
		return err
	}
	healthy, known := sound[m.pkg+m.expression()]
	if !known {
		if out, err := m.try(ctx, ""); err != nil {
			healthy = fmt.Errorf("its test fails without it: %w\n%s", err, last(out))
		}
		sound[m.pkg+m.expression()] = healthy
	}
	if healthy != nil {
		return healthy
	}
	out, err := m.try(ctx, overlay)
	name := regexp.QuoteMeta(m.test)
	switch failed := regexp.MustCompile(`(?m)^\s*--- FAIL: ` + name + `\b|^panic: test timed out (?s:.*)^\t+` + name + `\b`); {
	case err == nil:
		return errors.New("its test passes")
	case !failed.MatchString(out):
		return fmt.Errorf("something else than its test fails: %w\n%s", err, last(out))
	}
	return nil
}

// overlay writes the mutated file, and the file that has the compiler use it, and returns the latter's path.
func (m mutant) overlay(dir string) (string, error) {
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	text, err := m.apply(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(mutated, []byte(text), 0o644); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o644)
}

// apply returns the file with the fault in it.
func (m mutant) apply(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once", m.file, m.old, n)
	}
	return strings.Replace(string(b), m.old, m.new, 1), nil
}

// try runs the test, with an overlay if there is one.
func (m mutant) try(ctx context.Context, overlay string) (string, error) {
	limit := unitTimeout
	if m.kind == e2e {
		limit = e2eTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit+compileTimeout)
	defer cancel()
	args := []string{"test", "-count=1", "-vet=off", "-timeout", limit.String(), "-run", m.expression()}
	var env []string
	if m.kind == e2e {
		bin, err := m.build(ctx, overlay)
		if err != nil {
			return "", err
		}
		args, env = append(args, "-tags", "e2e"), []string{"SPACE_E2E_BIN=" + bin, "SPACE_E2E_INSTANCE=mutants", "SPACE_E2E_TEMPLATES=mini"}
	} else if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = append(args, "./"+m.pkg)
	if files, _ := filepath.Glob(filepath.Join(m.pkg, "*_test.go")); uses(files, "pgregory.net/rapid") {
		args = append(args, "-rapid.nofailfile") // it keeps failures in the tree
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), env...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	out, err := c.CombinedOutput()
	return string(out), err
}

// uses tells whether one of the files has a text in it.
func uses(files []string, text string) bool {
	return slices.ContainsFunc(files, func(f string) bool {
		b, err := os.ReadFile(f)
		return err == nil && strings.Contains(string(b), text)
	})
}

// build makes the binaries of a whole platform, and returns their directory.
func (m mutant) build(ctx context.Context, overlay string) (string, error) {
	bin := "bin"
	if overlay != "" {
		bin = filepath.Join(filepath.Dir(overlay), "bin")
	}
	bin, err := filepath.Abs(bin)
	if err != nil || overlay == "" { // make has built the real ones
		return bin, err
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(overlay)), 0o755); err != nil { // other users run them
		return "", err
	}
	for _, name := range []string{"space", "spaced-guest"} {
		c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-overlay", overlay, "-o", filepath.Join(bin, name), "./cmd/"+name)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	return bin, nil
}

// expression picks the test by its whole name. Of a platform's story, all chapters are run.
func (m mutant) expression() string {
	name, _, _ := strings.Cut(m.test, "/")
	return "^" + name + "$"
}

// last is the end of a test's output.
func last(out string) string {
	const enough = 2000
	return out[max(0, len(out)-enough):]
}
