package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
	"github.com/space-platform/space/internal/telemetry/otlp"
)

// lastTraces is how long a role that ends may take to send its last traces.
const lastTraces = 2 * time.Second

// observed runs a role with what its operator sees of it: metrics and readiness on a port of its own, and traces if there is a collector.
func observed(ctx context.Context, i instance.Instance, c instance.Config, r instance.Role, run roleRun) error {
	telemetry.Build(version, string(r))
	port, ok := i.OpsPort(r)
	if !ok {
		return run(ctx, i, c, new(telemetry.Ops))
	}
	stop, err := otlp.Start(ctx, otlp.Config{Endpoint: c.OTLPEndpoint, Service: i.Prefix() + string(r), Version: version})
	if err != nil {
		return fmt.Errorf("configuration: otlp_endpoint: %w", err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
		defer cancel()
		if err := stop(last); err != nil {
			slog.Warn("the last traces were not sent", "err", err)
		}
	}()
	o := new(telemetry.Ops)
	return beside(ctx, func(ctx context.Context) { answerOperator(ctx, port, o) }, func(ctx context.Context) error { return run(ctx, i, c, o) })
}

// answerOperator serves metrics until ctx ends. A role works without: whoever took the port must not be able to stop the platform.
func answerOperator(ctx context.Context, port int, o *telemetry.Ops) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		err = telemetry.Serve(ctx, l, profiled(o.Handler()))
	}
	if err != nil {
		slog.Error("no metrics", "port", port, "err", err)
		<-ctx.Done()
	}
}

// reaches checks that another role listens.
func reaches(i instance.Instance, r instance.Role) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := peer.Dial(ctx, i.Socket(r), i.UID(r))
		if err != nil {
			return err
		}
		return c.Close()
	}
}
