package cli

import (
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
)

func killCommand(a *app) *cobra.Command {
	var signal string
	c := &cobra.Command{
		Use: "kill SANDBOX SESSION", Short: "Send a signal to a session's process group", Args: cobra.ExactArgs(2),
		Example: "  space kill sbx_… ses_…\n  space kill -s INT sbx_… ses_…\n  space kill -s 15 sbx_… ses_…",
	}
	c.Flags().StringVarP(&signal, "signal", "s", "KILL", "its name, with or without SIG, or its number")
	n := connectionFlags(a, c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completes(false, sandboxes("running"), openSessions)
	n.completesFlag(c, "signal", words("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "STOP", "CONT"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := signalName(signal)
		if err != nil {
			return err
		}
		err = n.inside(cmd.Context(), args[0], func(p *client.Plane) error { return p.Signal(cmd.Context(), args[1], name) })
		if err != nil {
			return err
		}
		return n.showDone(cmd.OutOrStdout(), args[1], name)
	}
	return c
}

// lastSignal is the last one that isn't a real-time signal.
const lastSignal = 31

// signalName is the whole name of a signal that was given by it, without SIG, or by number.
func signalName(given string) (string, error) {
	name := strings.ToUpper(given)
	if n, err := strconv.Atoi(name); err == nil && n <= lastSignal {
		name = unix.SignalName(syscall.Signal(n))
	} else if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if n := unix.SignalNum(name); n == 0 || n > lastSignal {
		return "", wrongly("write a name such as TERM or SIGTERM, or a number from 1 to "+strconv.Itoa(lastSignal)+"; 'kill -l' lists them", "--signal %q is no signal", given)
	}
	return name, nil
}
