package service

import (
	"context"
	"errors"
	"io"
	"math"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/internal/host/files"
	"github.com/space-platform/space/internal/host/upload"
	"github.com/space-platform/space/internal/peer"
)

// Uploads stages what template builds use. See upload.Store.
type Uploads interface {
	Put(ctx context.Context, u upload.Upload, next upload.Next) (upload.File, error)
	List() []upload.Stored
	Remove(ids []string)
}

// Put stages an upload, whole or not at all.
func (h *Host) Put(ctx context.Context, stream *connect.ClientStream[uploadv1.PutRequest]) (*connect.Response[uploadv1.PutResponse], error) {
	if !stream.Receive() {
		if err := stream.Err(); err != nil {
			return nil, err
		}
		return nil, peer.ToConnect(space.Errorf(space.CodeInvalid, "the upload has no first message"))
	}
	m := stream.Msg().GetUpload()
	if m.GetNode() != h.Node {
		return nil, peer.ToConnect(space.Errorf(space.CodeRouteStale, "the upload belongs to another node"))
	}
	u := upload.Upload{ID: m.GetId(), MaxBytes: int64(min(m.GetMaxBytes(), math.MaxInt64)), SHA256: m.GetSha256(),
		Project: m.GetProject(), ProjectBytes: int64(min(m.GetProjectBytes(), math.MaxInt64))}
	f, err := h.Uploads.Put(ctx, u, pieces(stream))
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(&uploadv1.PutResponse{Bytes: uint64(f.Bytes), Sha256: f.SHA256}), nil
}

// pieces returns what the messages carry, that of the first one too.
func pieces(stream *connect.ClientStream[uploadv1.PutRequest]) upload.Next {
	first := true
	return func() ([]byte, bool, error) {
		if !first && !stream.Receive() {
			if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
				return nil, false, err
			}
			return nil, false, space.Errorf(space.CodeInvalid, "the upload was broken off before its end")
		}
		first = false
		data := stream.Msg().GetData()
		if len(data) > files.MaxData {
			return nil, false, space.Errorf(space.CodeTooLarge, "a message of an upload has %d bytes, limit %d", len(data), files.MaxData)
		}
		return data, stream.Msg().GetEnd(), nil
	}
}
