package peer

import (
	"context"
	"net"

	"connectrpc.com/connect"

	"github.com/space-platform/space/internal/telemetry"
)

// ClientOptions are what every client of ours is made with: answers of at most maxBytes per message, no compression, because both ends are
// on one machine, and the request's id on its way.
func ClientOptions(maxBytes int) connect.ClientOption {
	return connect.WithClientOptions(connect.WithReadMaxBytes(maxBytes), connect.WithAcceptCompression("gzip", nil, nil), connect.WithInterceptors(telemetry.Interceptor()))
}

// HandlerOptions are what every server of ours is made with: messages of at most maxBytes, and the request's id off the wire.
func HandlerOptions(maxBytes int) connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithReadMaxBytes(maxBytes), connect.WithInterceptors(telemetry.Interceptor()))
}

type uidKey struct{}

// UID returns the uid of the process that made the request, for a server that lets different peers call different verbs. It is
// known in handlers that Serve runs on a unix socket.
func UID(ctx context.Context) (uid int, ok bool) {
	uid, ok = ctx.Value(uidKey{}).(int)
	return uid, ok
}

// withUID is a server's ConnContext: credentials belong to a connection, so they are read once.
func withUID(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	cred, err := Credentials(u)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, uidKey{}, int(cred.Uid))
}
