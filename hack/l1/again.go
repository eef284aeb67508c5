package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// Emulated virtualisation now and then has a processor do what it shouldn't: a guest dies of a triple fault or stands still, some one of a hundred. So a test
// that fails in an L1 is run once more, by itself. That's said, in the end, too: what fails twice, or has much company, is no fault of the emulation.

// maxAgain bounds how many tests are run once more.
const maxAgain = 4

// again runs a test binary with its arguments, and once more each test that failed, and returns the exit code. The binary's own -test.run must be among the arguments.
func again(argv []string, out io.Writer) int {
	failed, code := runTests(argv, out)
	if code == 0 || len(failed) == 0 || len(failed) > maxAgain {
		return code
	}
	var twice []string
	for _, name := range failed {
		fmt.Fprintf(out, "l1: once more: %s\n", name)
		if _, code := runTests(append(argv[:len(argv):len(argv)], "-test.run", pattern(name)), out); code != 0 {
			twice = append(twice, name)
		}
	}
	fmt.Fprintf(out, "l1: %d failed and were run once more: %s; of these failed again: %s\n", len(failed), strings.Join(failed, ", "), cmp.Or(strings.Join(twice, ", "), "none"))
	if len(twice) > 0 {
		return code
	}
	return 0
}

// runTests runs a test binary and returns the innermost tests that failed.
func runTests(argv []string, out io.Writer) (failed []string, code int) {
	c := exec.Command(argv[0], argv[1:]...)
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	ended := make(chan error, 1)
	go func() {
		err := c.Run()
		w.Close()
		ended <- err
	}()
	failed = innermost(r, out)
	err := <-ended
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return failed, exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(out, "l1: %s: %v\n", argv[0], err)
		return failed, exitBroken
	}
	return failed, 0
}

var failedRE = regexp.MustCompile(`^\s*--- FAIL: (\S+) \(`)

// innermost copies what tests print, and returns those that failed without one inside them having failed.
func innermost(in io.Reader, out io.Writer) (failed []string) {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		io.WriteString(out, line)
		if m := failedRE.FindStringSubmatch(line); m != nil {
			failed = append(failed, m[1])
		}
		if err != nil {
			break
		}
	}
	return slices.DeleteFunc(failed, func(name string) bool {
		return slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// pattern is what -test.run takes for one test.
func pattern(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// runAgain is this program inside an L1, with 'again' and a test binary's command.
func runAgain() { os.Exit(again(os.Args[2:], os.Stdout)) }
