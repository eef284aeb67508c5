package edge

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	httpapi "github.com/space-platform/space/api/gen/http"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
)

// Putter is the node's door for uploads.
type Putter interface {
	Put(context.Context) *connect.ClientStreamForClient[uploadv1.PutRequest, uploadv1.PutResponse]
}

func (e *Edge) putUpload(w *answer, r *request) error {
	release, err := e.uploading.take()
	if err != nil {
		return err
	}
	defer release()
	u, err := e.resolveUpload(r)
	if err != nil {
		return err
	}
	leave, err := e.uploading.join(u.GetId(), u.GetProject())
	if err != nil {
		return err
	}
	defer leave()
	if r.ContentLength > 0 && uint64(r.ContentLength) > u.GetMaxBytes() {
		return space.Errorf(space.CodeTooLarge, "the body has %d bytes, at most %d are taken", r.ContentLength, u.GetMaxBytes())
	}
	resp, err := e.put(w, r, u)
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, httpapi.UploadReceived{Upload: r.upload, Bytes: signed(resp.GetBytes()), Sha256: resp.GetSha256()})
}

func (e *Edge) resolveUpload(r *request) (*uploadv1.Upload, error) {
	ctx, cancel := context.WithTimeout(r.Context(), e.timing.resolve)
	defer cancel()
	resp, err := e.plane.ResolveUpload(ctx, connect.NewRequest(&controlv1.ResolveUploadRequest{Upload: r.upload, Token: r.token}))
	if err != nil {
		return nil, inside(err)
	}
	if resp.Msg.GetUpload() != r.upload {
		return nil, space.Errorf(space.CodeForbidden, "the token opens another upload")
	}
	return &uploadv1.Upload{Id: r.upload, Node: resp.Msg.GetNode(), MaxBytes: resp.Msg.GetMaxBytes(), Sha256: resp.Msg.GetSha256(),
		Project: resp.Msg.GetProject(), ProjectBytes: resp.Msg.GetProjectBytes()}, nil
}

// put sends the body to the node that takes the upload. The node counts and refuses what is too much.
func (e *Edge) put(w *answer, r *request, u *uploadv1.Upload) (*uploadv1.PutResponse, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	limit := func(d time.Duration) func() bool {
		return time.AfterFunc(d, func() { cancel(space.Errorf(space.CodeTimeout, "the node took longer than %s", d)) }).Stop
	}
	stream := e.uploads.Put(ctx)
	stream.Send(&uploadv1.PutRequest{Upload: u})
	err := pour(newBody(w, r, false), func(data []byte, end bool) error {
		defer limit(dataTime)()
		return stream.Send(&uploadv1.PutRequest{Data: data, End: end})
	})
	if err != nil {
		cancel(err)
		stream.CloseAndReceive()
		return nil, err
	}
	defer limit(doTime)()
	resp, err := stream.CloseAndReceive()
	if err == nil {
		return resp.Msg, nil
	}
	var e2 *space.Error
	if errors.As(context.Cause(ctx), &e2) {
		return nil, e2
	}
	return nil, inside(err)
}
