package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	"github.com/space-platform/space/api/gen/host/v1/hostv1connect"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/node/manager"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// onSocket is the host part of URLs whose requests go to a unix socket; nobody looks at it.
const onSocket = "http://socket"

// managerRole owns the node's runtime records. It reaches the control plane through node-api, and the machines through spaced-host.
func managerRole() *cobra.Command {
	return roleCommand(instance.Manager, "Run the node's sbx-manager", func(ctx context.Context, i instance.Instance, _ instance.Config, o *telemetry.Ops) (err error) {
		door := peer.Client(i.Socket(instance.NodeAPI), i.UID(instance.NodeAPI))
		host := peer.Client(i.Socket(instance.Host), i.UID(instance.Host))
		m, err := manager.Open(manager.Config{
			Node:      i.Node(),
			Records:   filepath.Join(i.RoleDir(instance.Manager), "records.db"),
			Control:   controlv1connect.NewControlServiceClient(door, onSocket, peer.ClientOptions(manager.MaxReportBytes)),
			Host:      hostv1connect.NewHostServiceClient(host, onSocket, peer.ClientOptions(manager.MaxReportBytes)),
			Sessions:  sessionv1connect.NewSessionServiceClient(host, onSocket, peer.ClientOptions(relay.MaxEventBytes)),
			Sandboxes: sandboxv1connect.NewSandboxServiceClient(host, onSocket, peer.ClientOptions(relay.MaxResultBytes)),
			Uploads:   uploadv1connect.NewUploadServiceClient(host, onSocket, peer.ClientOptions(relay.MaxCallBytes)),
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		l, err := peer.Listen(i.Socket(instance.Manager), i.UID(instance.NodeAPI))
		if err != nil {
			return err
		}
		o.Ready(reaches(i, instance.Host))
		return beside(ctx, m.Run, func(ctx context.Context) error { return peer.Serve(ctx, l, m.Handler()) })
	})
}

// beside runs work next to serve until either ends, and returns when both have.
func beside(ctx context.Context, work func(context.Context), serve func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		work(ctx)
	}()
	err := serve(ctx)
	cancel()
	<-done
	return err
}
