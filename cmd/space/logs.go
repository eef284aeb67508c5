package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

func logsCommand() *cobra.Command {
	var follow bool
	var lines int
	c := &cobra.Command{
		Use: "logs [ROLE]", Short: "Show the log of a role, or of all", Args: cobra.MaximumNArgs(1), ValidArgs: logNames(),
		Example: "  space logs spaced-host -f",
	}
	name := instanceFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on showing what comes")
	c.Flags().IntVarP(&lines, "lines", "n", 20, "how many lines to begin with, of each role")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		i, err := find(name)
		if err != nil {
			return err
		}
		files, err := logFiles(i, args)
		if err != nil {
			return err
		}
		return tail(cmd, files, lines, follow)
	}
	return c
}

func logNames() []string {
	return append([]string{supervise.Name}, names(instance.Roles())...)
}

func logFiles(i instance.Instance, only []string) ([]string, error) {
	if len(only) > 0 && !slices.Contains(logNames(), only[0]) {
		return nil, cli.ErrorWithHint("not_found", fmt.Sprintf("the roles are %v", logNames()), "there is no role called %s", only[0])
	}
	var out []string
	for _, n := range logNames() {
		path := supervise.LogFile(i.LogDir(), n)
		if _, err := os.Stat(path); err == nil && (len(only) == 0 || only[0] == n) {
			out = append(out, path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read logs: %w", err)
		}
	}
	if len(out) == 0 {
		return nil, cli.ErrorWithHint("not_found", "'space up' starts it", "it has not run yet")
	}
	return out, nil
}

// tail leaves the work to tail(1), which follows files that are emptied by a rotation.
func tail(cmd *cobra.Command, files []string, lines int, follow bool) error {
	args := []string{"-n", strconv.Itoa(max(0, lines))}
	if follow {
		args = append(args, "-F")
	}
	t := exec.CommandContext(cmd.Context(), "tail", append(append(args, "--"), files...)...)
	t.Stdout, t.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	return t.Run()
}

const (
	lastLines = 5
	lastBytes = 8 << 10 // read of a log's end
)

// lastWords are the last lines of a role's log, for an error that says why it isn't up.
func lastWords(i instance.Instance, role string) string {
	f, err := os.Open(supervise.LogFile(i.LogDir(), role))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		f.Seek(max(0, st.Size()-lastBytes), io.SeekStart)
	}
	b, err := io.ReadAll(io.LimitReader(f, lastBytes))
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lastLines):], []byte("\n")))
}
