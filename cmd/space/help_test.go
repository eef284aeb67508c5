package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
)

// TestEveryCommandHasExamples: help shows how each command and each group is used, with lines that the command line itself understands.
func TestEveryCommandHasExamples(t *testing.T) {
	root := func() *cobra.Command { return cli.Root(platformCommands()...) }
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if !c.Runnable() || c.Hidden || c.Name() == "help" {
			return
		}
		if err := c.ValidateArgs(nil); err != nil && !strings.Contains(c.Use, " ") {
			t.Errorf("%s wants arguments and doesn't name them: %v", c.CommandPath(), err)
		}
		if c.Example == "" {
			t.Errorf("%s has no examples", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			understand(t, root(), c.CommandPath(), line)
		}
	}
	walk(root())
}

var (
	in  = regexp.MustCompile(`\$\(([^)]*)\)`)        // a call whose output is a word of another
	own = regexp.MustCompile(`\bspace ([^|<>&#)]*)`) // what the shell gives to space
	odd = regexp.MustCompile(`'[^']*'`)              // a quoted word
)

// understand finds the command of each call in an example and reads its flags.
func understand(t *testing.T, root *cobra.Command, of, line string) {
	t.Helper()
	line = odd.ReplaceAllString(line, "word")
	calls := own.FindAllStringSubmatch(in.ReplaceAllString(line, "word"), -1)
	for _, inner := range in.FindAllStringSubmatch(line, -1) {
		calls = append(calls, own.FindAllStringSubmatch(inner[1], -1)...)
	}
	if calls == nil {
		t.Errorf("an example of %s doesn't call space: %s", of, line)
	}
	for _, call := range calls {
		c, rest, err := root.Find(strings.Fields(call[1]))
		if err != nil || c == root || c.HasSubCommands() && c.CommandPath() != of {
			t.Errorf("an example of %s isn't a command: %s (%v)", of, line, err)
			continue
		}
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("an example of %s: %s: %v", of, line, err)
			continue
		}
		if c.Name() == "run" || c.Name() == "exec" { // they read what follows themselves
			if err := c.ParseFlags(c.Flags().Args()[1:]); err != nil {
				t.Errorf("an example of %s: %s: %v", of, line, err)
			}
			continue
		}
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			t.Errorf("an example of %s: %s: %v", of, line, err)
		}
	}
}
