package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

const (
	controlTimeout = 90 * time.Second // until the control plane serves: PostgreSQL and the schema are made the first time
	nodeTimeout    = 15 * time.Minute // until the node is connected: kernel and volume are made the first time
	healthPoll     = 100 * time.Millisecond
	healthEach     = 5 * time.Second  // one question
	tellEvery      = 15 * time.Second // that it's still waiting
	restartsMost   = 5                // restarts of one role while waiting: it won't come up by itself
)

// loopback is the API as it is always reachable on this machine.
func loopback(i instance.Instance) string { return fmt.Sprintf("http://127.0.0.1:%d", i.APIPort()) }

// awaitControl waits until the control plane answers.
func awaitControl(ctx context.Context, i instance.Instance) error {
	c, err := client.New(loopback(i), "")
	if err != nil {
		return err
	}
	return await(ctx, i, controlTimeout, func(ctx context.Context) error { _, err := c.Health(ctx); return err })
}

// awaitE2B waits until E2B's SDKs are served.
func awaitE2B(ctx context.Context, i instance.Instance) error {
	return await(ctx, i, controlTimeout, func(ctx context.Context) error { return ready(ctx, i, instance.E2B) })
}

// awaitNode waits until the node's host is ready and the node has synchronized with the control plane, and says what it is.
func awaitNode(ctx context.Context, i instance.Instance, tell io.Writer, getenv func(string) string) (note string, err error) {
	known, _, err := cli.Known(getenv, i.Name)
	if err != nil {
		return "", err
	}
	c, err := client.New(loopback(i), known.APIKey)
	if err != nil {
		return "", err
	}
	began, told := time.Now(), time.Now()
	var n client.Node
	err = await(ctx, i, nodeTimeout, func(ctx context.Context) (err error) {
		if time.Since(told) > tellEvery {
			told = time.Now()
			fmt.Fprintf(tell, "  still preparing the node, %.0f s; 'space logs spaced-host' shows what it does\n", time.Since(began).Seconds())
		}
		if err := ready(ctx, i, instance.Host); err != nil {
			return err
		}
		if n, err = c.Node(ctx); err == nil && (!n.Connected || n.Driver == "") {
			err = errors.New("the node has not said yet what it is")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	note = fmt.Sprintf("%s with %s", n.Driver, n.Acceleration)
	if !n.TenantBoundary {
		note += ", which doesn't separate tenants"
	}
	return note, nil
}

// ready asks a role whether it can do its work.
func ready(ctx context.Context, i instance.Instance, r instance.Role) error {
	port, _ := i.OpsPort(r)
	_, err := get(ctx, string(r), fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
	return err
}

// await repeats a question until it's answered without an error. It gives up at the deadline, or when a role keeps dying.
func await(ctx context.Context, i instance.Instance, most time.Duration, ask func(context.Context) error) error {
	before := restarts(i)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(healthPoll)
	defer tick.Stop()
	for {
		each, cancel := context.WithTimeout(ctx, healthEach)
		err := ask(each)
		cancel()
		if err == nil {
			return nil
		}
		if role := keepsDying(i, before); role != "" {
			return cli.ErrorWithHint("unavailable", "its last words:\n"+lastWords(i, role), "%s keeps ending", role)
		}
		select {
		case <-ctx.Done():
			return cli.ErrorWithHint("timeout", "'space status' and 'space logs' show what is missing", "not up after %s: %v", most, err)
		case <-tick.C:
		}
	}
}

// restarts are each role's since the platform went up.
func restarts(i instance.Instance) map[instance.Role]int {
	out := map[instance.Role]int{}
	for _, r := range instance.Roles() {
		if rec, err := supervise.Read(i.RunDir(), string(r)); err == nil {
			out[r] = rec.Restarts
		}
	}
	return out
}

func keepsDying(i instance.Instance, before map[instance.Role]int) string {
	for r, n := range restarts(i) {
		if n-before[r] >= restartsMost {
			return string(r)
		}
	}
	return ""
}
