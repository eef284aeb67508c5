package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func sandboxCreateCommand(n *connection) *cobra.Command {
	var vcpus, memory, disk int
	var snapshot string
	f := &lifeFlags{}
	c := &cobra.Command{
		Use: "create {TEMPLATE | --snapshot SNAPSHOT}", Short: "Create a sandbox and wait until it runs",
		Long:    "Creates a sandbox of a template, or with --snapshot of a moment of another one: it goes on as that was, with its size.",
		Example: "  space sandbox create base --metadata task=42\n  space sandbox create base --vcpus 2 --memory-mb 1024 --lifetime 1h\n  space sandbox create --snapshot before-upgrade",
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if snapshot != "" {
			if len(args) > 0 {
				return wrongly("leave one of them out", "a sandbox is created of template %s or of snapshot %s, not of both", args[0], snapshot)
			}
			return nil
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	c.Flags().StringVar(&snapshot, "snapshot", "", "snapshot to create it of, by id or name, instead of a template")
	n.completesFlag(c, "snapshot", snapshots(""))
	c.ValidArgsFunction = n.completes(false, usableTemplates)
	f.add(c, "delete", "stop", "suspend")
	numberVar(c.Flags(), &vcpus, "vcpus", "", "virtual CPUs; the template's if not given", 1, maxVCPUs)
	numberVar(c.Flags(), &memory, "memory-mb", "", "memory in MiB; the template's if not given", minMemoryMiB, maxMemoryMiB)
	numberVar(c.Flags(), &disk, "disk-mb", "", "disk in MiB; the template's if not given", minDiskMiB, maxDiskMiB)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		in := client.SandboxCreate{Snapshot: snapshot}
		if len(args) > 0 {
			in.Template = args[0]
		}
		var err error
		if in.Metadata, in.Env, in.Lifetime, err = f.values(); err != nil {
			return err
		}
		if in.Lifecycle, err = f.lifecycle(cmd, client.Lifecycle{}); err != nil {
			return err
		}
		setSize(cmd, "vcpus", &vcpus, &in.Vcpus)
		setSize(cmd, "memory-mb", &memory, &in.MemoryMb)
		setSize(cmd, "disk-mb", &disk, &in.DiskMb)
		return n.createSandbox(cmd, in)
	}
	return c
}

// setSize sets a size that was given, also one that the platform will refuse.
func setSize(cmd *cobra.Command, flag string, value *int, field **int) {
	if cmd.Flags().Changed(flag) {
		*field = value
	}
}

func (n *connection) createSandbox(cmd *cobra.Command, in client.SandboxCreate) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	ctx, _, stop := interruptible(cmd.Context())
	defer stop()
	ordering, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	op, err := c.BeginCreateSandbox(ordering, in)
	if err != nil {
		return err
	}
	s, err := awaitSandbox(ctx, c, op, cmd.ErrOrStderr())
	if err != nil {
		return unawaited(ctx, op.Sandbox.Id, err)
	}
	if n.json() {
		return WriteJSON(cmd.OutOrStdout(), s)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), s.Id)
	return err
}

// unawaited is the ending of a creation for whose end nobody waits any more. It tells the sandbox that there will be.
func unawaited(ctx context.Context, id string, err error) error {
	var s signalled
	if !errors.As(context.Cause(ctx), &s) {
		return err
	}
	return exitCode{exitSignal + int(s.Signal), &cliError{code: "interrupted", message: "sandbox " + id + " goes on being created", hint: "'space sandbox rm " + id + "' deletes it"}}
}
