package manager

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

type (
	hostCall   = connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]
	clientCall = connect.BidiStreamForClient[sandboxv1.CallRequest, sandboxv1.CallResponse]
)

// quietTime is how long nobody gets on before a stream counts as stalled.
const quietTime = 200 * time.Millisecond

func (r *rig) answer(call func(context.Context, *hostCall) error) {
	r.host.Lock()
	defer r.host.Unlock()
	r.host.call = call
}

// call opens a call through the door.
func (r *rig) call(t *testing.T, client sandboxv1connect.SandboxServiceClient, route *routev1.Route) *clientCall {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*waitLimit)
	s := client.Call(ctx)
	t.Cleanup(func() { cancel(); s.CloseRequest(); s.CloseResponse() })
	s.Send(&sandboxv1.CallRequest{Route: route, Action: &sandboxv1.Action{User: "root", Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: "/a"}}}})
	return s
}

// ends reads answers to the end of a call.
func ends(s *clientCall) (data []byte, code space.Code) {
	for {
		m, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return data, ""
		}
		if err != nil {
			return data, space.CodeOf(peer.FromConnect(err))
		}
		data = append(data, m.GetData()...)
	}
}

func dataAnswer(b []byte) *sandboxv1.CallResponse {
	return &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Data{Data: b}}
}

// echo sends back what comes until its end.
func echo(_ context.Context, s *hostCall) error {
	first, err := s.Receive()
	if err != nil || first.GetAction().GetStat().GetPath() != "/a" || first.GetAction().GetUser() != "root" {
		return space.Errorf(space.CodeInternal, "the first message is %v, %v", first, err)
	}
	for {
		m, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return space.Errorf(space.CodeGuest, "the upload broke off")
		}
		if err != nil {
			return err
		}
		if m.GetEnd() {
			return nil
		}
		if err := s.Send(dataAnswer(m.GetData())); err != nil {
			return err
		}
	}
}

func finishes(_ context.Context, s *hostCall) error {
	s.Receive()
	return s.Send(dataAnswer([]byte("done")))
}

func TestCallPassesBytesBothWays(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	r.answer(echo)
	s := r.call(t, r.boxes, peer.RouteMessage(e))
	want := make([]byte, 2<<20)
	rand.Read(want)
	go func() {
		for chunk := range chunks(want) {
			s.Send(&sandboxv1.CallRequest{Data: chunk})
		}
		s.Send(&sandboxv1.CallRequest{End: true})
		s.CloseRequest()
	}()
	if got, code := ends(s); code != "" || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d; %q", len(got), len(want), code)
	}
	half := r.call(t, r.boxes, peer.RouteMessage(e))
	half.CloseRequest()
	if _, code := ends(half); code != space.CodeGuest {
		t.Errorf("a stream without an end: %q", code)
	}
}

func chunks(b []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(len(b), 32<<10)
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

func TestEveryHopRefusesACallOfAStrayRoute(t *testing.T) {
	r := newRig(t)
	r.answer(finishes)
	e := r.running2(t)
	r.running(t)
	hops := map[string]sandboxv1connect.SandboxServiceClient{
		"door":    r.boxes,
		"manager": sandboxv1connect.NewSandboxServiceClient(peer.Client(r.path("manager"), 0), onSocket, peer.ClientOptions(relay.MaxResultBytes)),
	}
	for hop, client := range hops {
		for _, tt := range strays {
			want := map[string]space.Code{"door": tt.door, "manager": tt.manager}[hop]
			if _, got := ends(r.call(t, client, strayed(e, tt.stray))); got != want {
				t.Errorf("%s: %s: %q, want %q", hop, tt.name, got, want)
			}
		}
		if _, got := ends(r.call(t, client, nil)); got != space.CodeInvalid {
			t.Errorf("%s: no route: %q", hop, got)
		}
		if _, got := ends(r.call(t, client, peer.RouteMessage(e))); got != "" {
			t.Errorf("%s: the right route: %q", hop, got)
		}
	}
}

func TestCallEndsWithItsExecution(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*rig, space.Route)
		want space.Code
	}{
		"lost":    {func(r *rig, e space.Route) { r.host.kill(e.Execution) }, space.CodeExecutionLost},
		"removed": {func(r *rig, e space.Route) { r.control.unwant(e) }, space.CodeExecutionLost},
		"stopped": {func(r *rig, e space.Route) { r.control.send(stopOrder(e)) }, space.CodeConflict},
		"another incarnation": {func(r *rig, e space.Route) {
			e.Execution, e.Epoch = space.NewID(space.PrefixExecution), 2
			r.control.want(e)
		}, space.CodeRouteStale},
		"a restart":      {func(r *rig, _ space.Route) { r.stop() }, space.CodeUnavailable},
		"the host's end": {func(r *rig, _ space.Route) { r.cutHost() }, space.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.manager.table.grace = 10 * time.Millisecond
			e := r.running(t)
			answers := make(chan bool, 2)
			r.answer(func(ctx context.Context, s *hostCall) error {
				if <-answers {
					s.Send(dataAnswer([]byte("x")))
				}
				<-ctx.Done()
				return ctx.Err()
			})
			answers <- true
			watch := r.call(t, r.boxes, peer.RouteMessage(e))
			if _, err := watch.Receive(); err != nil {
				t.Fatal(err)
			}
			answers <- false
			silent := r.call(t, r.boxes, peer.RouteMessage(e))
			r.host.until(t, "both calls", func() bool { return len(answers) == 0 || r.again() })
			go tt.end(r, e)
			for what, s := range map[string]*clientCall{"a call that was answered": watch, "a silent one": silent} {
				if _, code := ends(s); code != tt.want {
					t.Errorf("%s: %q, want %q", what, code, tt.want)
				}
			}
		})
	}
}

func TestCallerThatLeavesEndsTheCall(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	gone, begun := make(chan struct{}), make(chan struct{})
	r.answer(func(ctx context.Context, s *hostCall) error {
		close(begun)
		<-ctx.Done()
		close(gone)
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	s := r.boxes.Call(ctx)
	s.Send(&sandboxv1.CallRequest{Route: peer.RouteMessage(e)})
	<-begun
	cancel()
	select {
	case <-gone:
	case <-time.After(waitLimit):
		t.Fatal("the host goes on")
	}
	r.host.until(t, "the call's end in the manager", func() bool {
		r.manager.table.mu.Lock()
		defer r.manager.table.mu.Unlock()
		return len(r.manager.table.streams) == 0 || r.again()
	})
}

// fill sends until nothing gets on any more, and returns how much did.
func fill(t *testing.T, s *clientCall) (bytes int64) {
	t.Helper()
	var sent atomic.Int64
	stalled := make(chan struct{})
	quiet := time.AfterFunc(quietTime, sync.OnceFunc(func() { close(stalled) }))
	go func() {
		chunk := make([]byte, 32<<10)
		for s.Send(&sandboxv1.CallRequest{Data: chunk}) == nil && quiet.Reset(quietTime) {
			sent.Add(int64(len(chunk)))
		}
	}()
	select {
	case <-stalled:
	case <-time.After(waitLimit):
		t.Error("it goes on and on")
	}
	return sent.Load()
}

// TestStalledCallsStallNobodyElse has uploads that the host doesn't take and downloads that the client doesn't take, far more than one
// connection's buffer holds unless each has its own share.
func TestStalledCallsStallNobodyElse(t *testing.T) {
	r := newRig(t)
	e, other := r.running(t), r.running(t)
	r.answer(func(ctx context.Context, s *hostCall) error { <-ctx.Done(); return ctx.Err() })
	const pairs = 24
	var fills sync.WaitGroup
	for range pairs {
		s := r.call(t, r.boxes, peer.RouteMessage(e))
		fills.Go(func() {
			if sent := fill(t, s); sent > 3<<20 {
				t.Errorf("%d bytes went nowhere", sent)
			}
		})
	}
	fills.Wait()
	var sent atomic.Int64
	r.answer(func(_ context.Context, s *hostCall) error {
		for chunk := make([]byte, 32<<10); ; sent.Add(int64(len(chunk))) {
			if err := s.Send(dataAnswer(chunk)); err != nil {
				return err
			}
		}
	})
	for range pairs {
		r.call(t, r.boxes, peer.RouteMessage(e))
	}
	r.answer(echo)
	late := time.AfterFunc(waitLimit, func() { panic("the calls that stand still keep others from going on") })
	defer late.Stop()
	for _, route := range []space.Route{e, other} {
		s := r.call(t, r.boxes, peer.RouteMessage(route))
		s.Send(&sandboxv1.CallRequest{Data: make([]byte, 32<<10)})
		s.Send(&sandboxv1.CallRequest{End: true})
		if got, code := ends(s); code != "" || len(got) != 32<<10 {
			t.Errorf("%d bytes, %q", len(got), code)
		}
	}
	if n := sent.Load(); n > pairs*5<<20 {
		t.Errorf("%d bytes of downloads are on their way", n)
	}
}

func TestCallLimits(t *testing.T) {
	r := newRig(t)
	r.manager.table.share = 5
	e := r.running(t)
	r.answer(func(ctx context.Context, s *hostCall) error {
		s.Receive()
		s.Send(dataAnswer([]byte("x")))
		<-ctx.Done()
		return ctx.Err()
	})
	for n := range r.manager.table.share {
		if _, err := r.call(t, r.boxes, peer.RouteMessage(e)).Receive(); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
	}
	if _, code := ends(r.call(t, r.boxes, peer.RouteMessage(e))); code != space.CodeQuotaExceeded {
		t.Errorf("one more: %q", code)
	}
	if s := r.attach(t, e); !s.Receive() {
		t.Errorf("calls keep an attach out: %v", s.Err())
	}
	r.answer(finishes)
	if _, code := ends(r.call(t, r.boxes, peer.RouteMessage(r.running(t)))); code != "" {
		t.Errorf("another sandbox: %q", code)
	}
}

// put sends an upload through the door.
func (r *rig) sendUpload(t *testing.T, u *uploadv1.Upload, data []byte) (*uploadv1.PutResponse, space.Code) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s := r.uploads.Put(ctx)
	s.Send(&uploadv1.PutRequest{Upload: u})
	for chunk := range chunks(data) {
		if s.Send(&uploadv1.PutRequest{Data: chunk}) != nil {
			break
		}
	}
	s.Send(&uploadv1.PutRequest{End: true})
	resp, err := s.CloseAndReceive()
	if err != nil {
		return nil, space.CodeOf(peer.FromConnect(err))
	}
	return resp.Msg, ""
}

func TestUploads(t *testing.T) {
	r := newRig(t)
	r.host.put = func(_ context.Context, s *connect.ClientStream[uploadv1.PutRequest]) (*uploadv1.PutResponse, error) {
		sum, n, whole := sha256.New(), uint64(0), false
		for s.Receive() {
			sum.Write(s.Msg().GetData())
			n += uint64(len(s.Msg().GetData()))
			whole = s.Msg().GetEnd()
			if n > 1<<20 {
				return nil, space.Errorf(space.CodeTooLarge, "over the limit")
			}
		}
		if s.Err() != nil || !whole {
			return nil, space.Errorf(space.CodeUnavailable, "it broke off: %v", s.Err())
		}
		return &uploadv1.PutResponse{Bytes: n, Sha256: hex.EncodeToString(sum.Sum(nil))}, nil
	}
	data := make([]byte, 1<<20-1)
	rand.Read(data)
	good := func() *uploadv1.Upload {
		return &uploadv1.Upload{Id: space.NewID(space.PrefixUpload), Node: nodeName, MaxBytes: 1}
	}
	want := sha256.Sum256(data)
	if got, code := r.sendUpload(t, good(), data); code != "" || got.GetBytes() != uint64(len(data)) || got.GetSha256() != hex.EncodeToString(want[:]) {
		t.Errorf("%v, %q", got, code)
	}
	if _, code := r.sendUpload(t, good(), make([]byte, 4<<20)); code != space.CodeTooLarge {
		t.Errorf("one that the host refuses on the way: %q", code)
	}
	for name, tt := range map[string]struct {
		change func(*uploadv1.Upload)
		want   space.Code
	}{
		"another node": {func(u *uploadv1.Upload) { u.Node = "elsewhere" }, space.CodeRouteStale},
		"no node":      {func(u *uploadv1.Upload) { u.Node = "" }, space.CodeRouteStale},
		"no id":        {func(u *uploadv1.Upload) { u.Id = "" }, space.CodeInvalid},
		"a path as id": {func(u *uploadv1.Upload) { u.Id = "upl_../../../../etc/passwd0" }, space.CodeInvalid},
		"no limit":     {func(u *uploadv1.Upload) { u.MaxBytes = 0 }, space.CodeInvalid},
	} {
		u := good()
		tt.change(u)
		if _, code := r.sendUpload(t, u, data); code != tt.want {
			t.Errorf("%s: %q, want %q", name, code, tt.want)
		}
	}
}

// TestUploadThatBreaksOff: the host hears that nothing more comes. On a busy machine a stream that is cut can look like one that was closed,
// so only a message that says so makes an upload whole, and the client of one that was closed without it hears that.
func TestUploadThatBreaksOff(t *testing.T) {
	for name, cut := range map[string]bool{"cut": true, "closed without its end": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			whole := make(chan bool, 1)
			begun := make(chan struct{})
			r.host.put = func(_ context.Context, s *connect.ClientStream[uploadv1.PutRequest]) (*uploadv1.PutResponse, error) {
				s.Receive()
				close(begun)
				end := false
				for s.Receive() {
					end = end || s.Msg().GetEnd()
				}
				whole <- end
				return nil, space.Errorf(space.CodeUnavailable, "it broke off")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := r.uploads.Put(ctx)
			s.Send(&uploadv1.PutRequest{Upload: &uploadv1.Upload{Id: space.NewID(space.PrefixUpload), Node: nodeName, MaxBytes: 1}})
			<-begun
			if cut {
				cancel()
			} else if _, err := s.CloseAndReceive(); space.CodeOf(peer.FromConnect(err)) != space.CodeUnavailable {
				t.Errorf("the client hears %v", err)
			}
			select {
			case end := <-whole:
				if end {
					t.Error("the host takes it for a whole one")
				}
			case <-time.After(waitLimit):
				t.Fatal("the host waits on")
			}
		})
	}
}
