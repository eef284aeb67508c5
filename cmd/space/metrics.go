package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/telemetry"
)

// Limits of what is read from a role.
const (
	metricsTimeout = 5 * time.Second
	maxMetrics     = 8 << 20 // bytes
)

func metricsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "metrics ROLE", Short: "Show the metrics of a role", Args: cobra.ExactArgs(1), ValidArgs: observedRoles(),
		Long:    "Prints a role's metrics in Prometheus's text format, as http://127.0.0.1:PORT/metrics serves them.",
		Example: "  space metrics spaced-host",
	}
	name := instanceFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		i, err := find(name)
		if err != nil {
			return err
		}
		port, ok := i.OpsPort(instance.Role(args[0]))
		if !ok {
			return cli.ErrorWithHint("not_found", fmt.Sprintf("the roles that have are %v", observedRoles()), "there is no role called %s that has metrics", args[0])
		}
		return printMetrics(cmd.Context(), cmd.OutOrStdout(), args[0], fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	}
	return c
}

// observedRoles are the roles that have metrics.
func observedRoles() []string {
	return names(slices.DeleteFunc(instance.Roles(), func(r instance.Role) bool {
		_, ok := instance.Instance{}.OpsPort(r)
		return !ok
	}))
}

func printMetrics(ctx context.Context, to io.Writer, role, url string) error {
	body, err := get(ctx, role, url)
	if err != nil {
		return err
	}
	_, err = to.Write(body)
	return err
}

// get reads what a role says to an operator.
func get(ctx context.Context, role, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, cli.ErrorWithHint("unavailable", "'space status' shows whether it runs", "%s doesn't answer: %v", role, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, cli.ErrorWithHint("unavailable", "try again in a moment", "%s answers %s", role, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return nil, fmt.Errorf("read what %s says: %w", role, err)
	}
	return body, nil
}

// waiting is how many machines of an instance are its pool's and belong to no sandbox, as far as spaced-host says; 0 if it doesn't.
func waiting(ctx context.Context, i instance.Instance) int {
	port, _ := i.OpsPort(instance.Host)
	body, err := get(ctx, string(instance.Host), fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return 0
	}
	n, err := telemetry.Sum(bytes.NewReader(body), "space_host_pool_slots", nil)
	if err != nil {
		return 0
	}
	return int(n)
}
