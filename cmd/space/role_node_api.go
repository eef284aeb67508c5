package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/node/api"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// nodeAPIRole is the node's door, between the edge and sbx-manager on one side and sbx-manager and the control plane on the other.
func nodeAPIRole() *cobra.Command {
	return roleCommand(instance.NodeAPI, "Run the node's door", func(ctx context.Context, i instance.Instance, _ instance.Config, o *telemetry.Ops) error {
		control := peer.Client(i.Socket(instance.API), i.UID(instance.API))
		manager := peer.Client(i.Socket(instance.Manager), i.UID(instance.Manager))
		h := api.NewHandler(api.Config{
			Node:       i.Node(),
			EdgeUID:    i.UID(instance.Edge),
			ManagerUID: i.UID(instance.Manager),
			Control:    controlv1connect.NewControlServiceClient(control, onSocket, peer.ClientOptions(api.MaxReportBytes)),
			Manager:    sessionv1connect.NewSessionServiceClient(manager, onSocket, peer.ClientOptions(relay.MaxEventBytes)),
			Sandboxes:  sandboxv1connect.NewSandboxServiceClient(manager, onSocket, peer.ClientOptions(relay.MaxResultBytes)),
			Uploads:    uploadv1connect.NewUploadServiceClient(manager, onSocket, peer.ClientOptions(relay.MaxCallBytes)),
		})
		l, err := peer.Listen(i.Socket(instance.NodeAPI), i.UID(instance.Edge), i.UID(instance.Manager))
		if err != nil {
			return err
		}
		o.Ready(reaches(i, instance.Manager))
		return peer.Serve(ctx, l, h)
	})
}
