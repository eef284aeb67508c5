package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/setup"
	"github.com/space-platform/space/internal/supervise"
	"github.com/space-platform/space/internal/systemd"
)

// statusTimeout bounds what status asks the API: it also runs when the platform is in trouble.
const statusTimeout = 3 * time.Second

// platformStatus is what status shows.
type platformStatus struct {
	Instance  string       `json:"instance"`
	Healthy   bool         `json:"healthy"` // every role runs, the API answers, and the node is connected and takes new work
	URL       string       `json:"url"`
	API       string       `json:"api"` // healthy, or why not
	Node      *client.Node `json:"node,omitempty"`
	Machines  int          `json:"machines"`            // processes of virtual machines, those of template builds included
	Waiting   int          `json:"waiting"`             // of them, those that wait in the pool for the next sandboxes
	Sandboxes *int         `json:"sandboxes,omitempty"` // that aren't deleted; absent when the API doesn't answer
	Roles     []roleStatus `json:"roles"`
	Next      string       `json:"next,omitempty"` // what to do about it
}

// roleStatus is one role.
type roleStatus struct {
	Role     string `json:"role"`
	State    string `json:"state"` // running, restarting (somebody will), stopped
	PID      int    `json:"pid,omitempty"`
	Uptime   int    `json:"uptime_seconds,omitempty"`
	Restarts int    `json:"restarts"`
	LastExit string `json:"last_exit,omitempty"`
}

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Show whether the platform on this machine is healthy", Args: cobra.NoArgs,
		Example: "  space status\n  space status --instance demo -o json",
		Long:    "Shows the roles, the node and the number of sandboxes. The exit code is 0 if all is healthy, else 1.",
	}
	name, json := instanceFlag(c), cli.OutputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		i, err := find(name)
		if err != nil {
			return err
		}
		s, err := status(cmd.Context(), i)
		if err != nil {
			return err
		}
		if json() {
			err = cli.WriteJSON(cmd.OutOrStdout(), s)
		} else {
			err = s.show(cmd.OutOrStdout())
		}
		if err == nil && !s.Healthy {
			return cli.ExitCode(1)
		}
		return err
	}
	return c
}

func status(ctx context.Context, i instance.Instance) (platformStatus, error) {
	s := platformStatus{Instance: i.Name, Healthy: true, URL: loopback(i), API: "healthy"}
	var err error
	if s.Machines, err = setup.Machines(i); err != nil {
		return s, err
	}
	kept := kept(ctx, i)
	for _, name := range shown(i) {
		r := roleOf(i, name, kept, time.Now())
		s.Healthy = s.Healthy && r.State == "running"
		s.Roles = append(s.Roles, r)
	}
	if !kept {
		s.Next = "nobody restarts the roles: sudo space up --instance " + i.Name
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s.Waiting = waiting(ctx, i)
	if err := s.ask(ctx, i); err != nil {
		s.Healthy, s.API = false, err.Error()
	} else if !s.Node.Connected || refuses(s.Node) {
		s.Healthy = false
	}
	return s, nil
}

// refuses tells whether a node begins nothing new, because its volume is full.
func refuses(n *client.Node) bool {
	return n.DiskPressure != nil && *n.DiskPressure == gen.NodeDiskPressureRefusing
}

// kept tells whether somebody starts the roles again when they end.
func kept(ctx context.Context, i instance.Instance) bool {
	return supervise.Running(i.RunDir()) || systemd.Machine().Active(ctx, i)
}

// shown are the roles of a status. Where systemd keeps them there is no supervisor.
func shown(i instance.Instance) []string {
	if systemd.Machine().Keeps(i) {
		return names(roles(i))
	}
	return append([]string{supervise.Name}, names(roles(i))...)
}

func names(roles []instance.Role) []string {
	out := make([]string, len(roles))
	for k, r := range roles {
		out[k] = string(r)
	}
	return out
}

func roleOf(i instance.Instance, name string, kept bool, now time.Time) roleStatus {
	rec, err := supervise.Read(i.RunDir(), name)
	switch {
	case err == nil && rec.Alive():
		return roleStatus{Role: name, State: "running", PID: rec.PID, Uptime: int(now.Sub(rec.StartedAt).Seconds()), Restarts: rec.Restarts, LastExit: rec.LastExit}
	case kept:
		return roleStatus{Role: name, State: "restarting", Restarts: rec.Restarts, LastExit: rec.LastExit}
	default:
		return roleStatus{Role: name, State: "stopped"}
	}
}

// ask fills in what only the API knows.
func (s *platformStatus) ask(ctx context.Context, i instance.Instance) error {
	known, _, err := cli.Known(userEnvironment, i.Name)
	if err != nil {
		return err
	}
	c, err := client.New(loopback(i), known.APIKey)
	if err != nil {
		return err
	}
	if _, err := c.Health(ctx); err != nil {
		return err
	}
	n, err := c.Node(ctx)
	if err != nil {
		return err
	}
	count := 0
	for sandbox, err := range c.ListSandboxes(ctx, client.SandboxFilter{}) {
		if err != nil {
			return err
		}
		if sandbox.State != "deleted" {
			count++
		}
	}
	s.Node, s.Sandboxes = &n, &count
	return nil
}

// showRoom shows what a node has left, and what to do if that is little.
func showRoom(to io.Writer, n *client.Node) {
	if n.DiskMb != nil && n.MemoryAvailableMb != nil {
		fmt.Fprintf(to, "room       %d MiB of memory available, %d MiB of %d free on the volume\n", *n.MemoryAvailableMb, *n.DiskFreeMb, *n.DiskMb)
	}
	if n.Advice != nil {
		fmt.Fprintf(to, "warning    %s\n", *n.Advice)
	}
}

func (s platformStatus) show(to io.Writer) error {
	rows := make([][]string, len(s.Roles))
	for k, r := range s.Roles {
		pid, up := "", ""
		if r.State == "running" {
			pid, up = strconv.Itoa(r.PID), (time.Duration(r.Uptime) * time.Second).String()
		}
		rows[k] = []string{r.Role, r.State, pid, up, strconv.Itoa(r.Restarts), r.LastExit}
	}
	if err := cli.WriteTable(to, []string{"ROLE", "STATE", "PID", "UPTIME", "RESTARTS", "LAST EXIT"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(to, "\napi        %s (%s)\n", s.API, s.URL)
	if s.Node != nil {
		fmt.Fprintf(to, "node       %s, connected: %t, %s with %s, separates tenants: %t\n", s.Node.Name, s.Node.Connected, s.Node.Driver, s.Node.Acceleration, s.Node.TenantBoundary)
		showRoom(to, s.Node)
		fmt.Fprintf(to, "sandboxes  %d\n", *s.Sandboxes)
	}
	fmt.Fprintf(to, "machines   %d, of which %d wait in the pool\n", s.Machines, s.Waiting)
	if s.Next != "" {
		fmt.Fprintf(to, "next       %s\n", s.Next)
	}
	return nil
}
