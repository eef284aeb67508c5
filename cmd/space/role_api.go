package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/activity"
	"github.com/space-platform/space/internal/control/api"
	"github.com/space-platform/space/internal/control/controllers"
	"github.com/space-platform/space/internal/control/dataplane"
	"github.com/space-platform/space/internal/control/events"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/projects"
	"github.com/space-platform/space/internal/control/prune"
	"github.com/space-platform/space/internal/control/retention"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/sessions"
	"github.com/space-platform/space/internal/control/templates"
	"github.com/space-platform/space/internal/control/uploads"
	"github.com/space-platform/space/internal/control/users"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/envelope"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/postgres"
	"github.com/space-platform/space/internal/telemetry"
)

// apiRole is the control plane: the management API on loopback, and the internal socket for the node and the edge.
func apiRole() *cobra.Command {
	return roleCommand(instance.API, "Run the control plane", func(ctx context.Context, i instance.Instance, c instance.Config, o *telemetry.Ops) error {
		pool, err := openDatabase(ctx, i, c)
		if err != nil {
			return err
		}
		defer pool.Close()
		key, err := envelope.Load(filepath.Join(i.RoleDir(instance.API), "encryption.key"))
		if err != nil {
			return err
		}
		store := postgres.New(pool).Sealing(key)
		if _, err := keys.EnsureDefaults(ctx, store); err != nil {
			return err
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", i.APIPort()))
		if err != nil {
			return fmt.Errorf("listen for clients: %w", err)
		}
		telemetry.Register(postgres.Figures(pool))
		o.Ready(pool.Ping)
		return serveControl(ctx, i, c, store, key, l)
	})
}

// serveControl puts the parts together and serves until ctx ends or one of them fails.
func serveControl(ctx context.Context, i instance.Instance, c instance.Config, store *postgres.Store, key *envelope.Key, l net.Listener) error {
	bell := new(wake.Bell)
	store.Announce(func(project string) { bell.Ring(wake.Events(project)) })
	ops := operations.New(store, bell)
	tpls := templates.New(store, bell, i.Node())
	boxes := sandboxes.New(store, tpls, bell)
	ups := uploads.New(store, bell, i.Node(), c.EdgeURL)
	seen, garbage := activity.New(store), retention.NewCollector(store, bell)
	ses := sessions.New(store, boxes, tpls, seen, bell, c.EdgeURL)
	doors := access.New(store, boxes, seen, bell, c.EdgeURL)
	node := nodesync.NewNode(i.Node(), store, seen, bell)
	internal := nodesync.NewService(node, ses, nodesync.Peers{Node: i.UID(instance.NodeAPI), Edge: i.UID(instance.Edge)})
	internal.Mount(dataplane.New(dataplane.Parts{
		Access: doors, Sessions: ses, Creator: api.TokenSessions{Access: doors, Sessions: ses}, Templates: tpls, Uploads: ups,
	}, i.UID(instance.Edge)).Handler())
	rpc, err := internal.Listen(i.Socket(instance.API))
	if err != nil {
		return err
	}
	public := api.New(api.Parts{
		Recognizer: store, Bell: bell, Keys: keys.New(store, bell), Projects: projects.New(store), Users: users.New(store), Events: events.New(store, bell),
		Sandboxes: boxes, Sessions: ses, Access: doors, Garbage: garbage, Meter: node, Templates: tpls, Uploads: ups, Operations: ops, Database: store, Cursors: key, Node: i.Node(), Version: version,
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return internal.Serve(ctx, rpc) })
	g.Go(func() error { return api.Serve(ctx, l, public) })
	g.Go(func() error { prune.Run(ctx, store); return nil })
	g.Go(func() error { controllers.ExpireSandboxes(ctx, store, boxes, bell); return nil })
	g.Go(func() error { controllers.EndIdleSandboxes(ctx, store, boxes, seen); return nil })
	g.Go(func() error { seen.Run(ctx); return nil })
	g.Go(func() error { controllers.CollectSnapshots(ctx, garbage); return nil })
	g.Go(func() error { controllers.RollSnapshots(ctx, store, boxes); return nil })
	g.Go(func() error { controllers.RelieveNode(ctx, i.Node(), node, store, boxes); return nil })
	return g.Wait()
}
