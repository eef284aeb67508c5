package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/edge"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// edgeRole serves the data plane to clients on loopback.
func edgeRole() *cobra.Command {
	return roleCommand(instance.Edge, "Serve the data plane", func(ctx context.Context, i instance.Instance, c instance.Config, o *telemetry.Ops) error {
		control := peer.Client(i.Socket(instance.API), i.UID(instance.API))
		node := peer.Client(i.Socket(instance.NodeAPI), i.UID(instance.NodeAPI))
		e := edge.New(edge.Config{
			Control:   controlv1connect.NewControlServiceClient(control, onSocket, peer.ClientOptions(edge.MaxResolveBytes)),
			Plane:     controlv1connect.NewDataPlaneServiceClient(control, onSocket, peer.ClientOptions(edge.MaxResolveBytes)),
			Node:      sessionv1connect.NewSessionServiceClient(node, onSocket, peer.ClientOptions(edge.MaxEventBytes)),
			Sandboxes: sandboxv1connect.NewSandboxServiceClient(node, onSocket, peer.ClientOptions(edge.MaxResultBytes)),
			Uploads:   uploadv1connect.NewUploadServiceClient(node, onSocket, peer.ClientOptions(edge.MaxEventBytes)),
			Origins:   c.EdgeOrigins,
			Version:   version,
		})
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", i.EdgePort()))
		if err != nil {
			return fmt.Errorf("listen for clients: %w", err)
		}
		o.Ready(reaches(i, instance.API))
		return e.Serve(ctx, l)
	})
}
