package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	contract "github.com/space-platform/space/api"
	"github.com/space-platform/space/api/apitest"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/link"
)

// wedged makes a guest that doesn't answer when it's asked for its figures.
const wedged = true

// connect makes a link to a guest whose calls about files are answered by serve.
func connect(t *testing.T, serve func(context.Context, *link.Stream, *sandboxv1.Action), mute ...bool) *link.Link {
	t.Helper()
	host, guest := net.Pipe()
	end := link.NewGuest(guest, link.Hooks{Sync: func(link.Sync) error { return nil }, Clock: func(time.Time) error { return nil }})
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	work.Go(func() { end.Run() })
	work.Go(func() {
		for {
			st, err := end.Accept(ctx)
			if err != nil {
				return
			}
			work.Go(func() {
				defer st.CloseSend()
				b, err := st.Recv(ctx)
				call := new(guestv1.Call)
				if err != nil || proto.Unmarshal(b, call) != nil {
					return
				}
				switch {
				case call.GetMeasure() == nil:
					serve(ctx, st, call.GetFiles())
				case len(mute) > 0:
					<-st.Done()
				default:
					b, _ := proto.Marshal(&sandboxv1.GuestUsage{Processes: 1})
					st.Send(ctx, b)
				}
			})
		}
	})
	l, err := link.Host(t.Context(), host, link.Sync{Execution: "exe_test", Epoch: 1, Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); cancel(); guest.Close(); work.Wait() })
	return l
}

func say(st *link.Stream, m *guestv1.FromFiles) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return st.Send(context.Background(), b)
}

func answer(m *sandboxv1.CallResponse) *guestv1.FromFiles {
	return &guestv1.FromFiles{Message: &guestv1.FromFiles_Response{Response: m}}
}

func done() *guestv1.FromFiles {
	return &guestv1.FromFiles{Message: &guestv1.FromFiles_Done{Done: &guestv1.Done{}}}
}

func failed(code, message string) *guestv1.FromFiles {
	return &guestv1.FromFiles{Message: &guestv1.FromFiles_Error{Error: &routev1.Error{Code: code, Message: message, Field: "path"}}}
}

func entry(path string) *sandboxv1.CallResponse {
	return &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entry{Entry: &sandboxv1.Entry{Path: path, Type: "file", Size: 5}}}
}

func data(b []byte) *sandboxv1.CallResponse {
	return &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Data{Data: b}}
}

// caller brings an upload and keeps the answers.
type caller struct {
	upload  [][]byte
	cut     <-chan struct{} // the upload breaks off once this is closed, instead of ending
	gone    <-chan struct{} // the request is over; nil: it's waited for the last answer only
	answers []*sandboxv1.CallResponse
	content []byte
	err     error // of Send

	answered func() // called by Send; nil for nothing
}

func (c *caller) Receive() ([]byte, bool, error) {
	switch {
	case len(c.upload) > 0:
		b := c.upload[0]
		c.upload = c.upload[1:]
		return b, false, nil
	case c.cut != nil:
		<-c.cut
		return nil, false, io.EOF
	case c.gone != nil:
		<-c.gone
		return nil, false, io.ErrUnexpectedEOF
	}
	return nil, true, nil
}

func (c *caller) Send(m *sandboxv1.CallResponse) error {
	c.answers = append(c.answers, m)
	c.content = append(c.content, m.GetData()...)
	if c.answered != nil {
		c.answered()
	}
	return c.err
}

var (
	stat   = &sandboxv1.Action{Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: "/x"}}}
	list   = &sandboxv1.Action{Action: &sandboxv1.Action_List{List: &sandboxv1.List{Path: "/"}}}
	remove = &sandboxv1.Action{Action: &sandboxv1.Action_Remove{Remove: &sandboxv1.Remove{Path: "/x"}}}
	read   = &sandboxv1.Action{Action: &sandboxv1.Action_Read{Read: &sandboxv1.Read{Path: "/x", ToEnd: true}}}
	ranged = &sandboxv1.Action{Action: &sandboxv1.Action_Read{Read: &sandboxv1.Read{Path: "/x", Length: 3}}}
	write  = &sandboxv1.Action{Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: "/x"}}}
	watch  = &sandboxv1.Action{Action: &sandboxv1.Action_Watch{Watch: &sandboxv1.Watch{Path: "/"}}}
	unpack = &sandboxv1.Action{Action: &sandboxv1.Action_WriteArchive{WriteArchive: &sandboxv1.WriteArchive{Path: "/"}}}
)

func chunks(total int) (all []byte, out [][]byte) {
	for n := 0; n < total; n += MaxData {
		b := bytes.Repeat([]byte{byte(n / MaxData)}, min(MaxData, total-n))
		all, out = append(all, b...), append(out, b)
	}
	return all, out
}

// takeUpload receives an upload as a guest does.
func takeUpload(ctx context.Context, st *link.Stream) ([]byte, error) {
	var all []byte
	for {
		b, err := st.Recv(ctx)
		if err != nil {
			return all, err
		}
		m := new(guestv1.ToFiles)
		if err := proto.Unmarshal(b, m); err != nil {
			return all, err
		}
		all = append(all, m.GetData()...)
		if m.GetEnd() {
			return all, nil
		}
	}
}

func TestContentsPassBothWays(t *testing.T) {
	want, parts := chunks(3<<20 + 17)
	var kept []byte
	l := connect(t, func(ctx context.Context, st *link.Stream, a *sandboxv1.Action) {
		if a.GetWrite() != nil {
			kept, _ = takeUpload(ctx, st)
			say(st, answer(entry("/x")))
		} else {
			say(st, answer(entry("/x")))
			for _, p := range parts {
				say(st, answer(data(p)))
			}
		}
		say(st, done())
	})
	up := &caller{upload: parts}
	if err := Relay(t.Context(), l, write, up); err != nil || !bytes.Equal(kept, want) || len(up.answers) != 1 {
		t.Fatalf("wrote %d of %d bytes, %v", len(kept), len(want), err)
	}
	down := &caller{}
	if err := Relay(t.Context(), l, read, down); err != nil || !bytes.Equal(down.content, want) {
		t.Fatalf("read %d of %d bytes, %v", len(down.content), len(want), err)
	}
}

func TestGuestMayRefuseInTheMiddleOfAnUpload(t *testing.T) {
	_, parts := chunks(2 << 20)
	l := connect(t, func(ctx context.Context, st *link.Stream, _ *sandboxv1.Action) {
		st.Recv(ctx)
		say(st, failed("guest_error", "the disk is full"))
	})
	err := Relay(t.Context(), l, write, &caller{upload: parts})
	var e *space.Error
	if !errors.As(err, &e) || e.Code != space.CodeGuest || e.Message != "the disk is full" || e.Field != "path" {
		t.Error(err)
	}
}

func TestBrokenUploadIsToldToTheGuest(t *testing.T) {
	// A call that is cancelled before the guest has heard of it never begins there.
	begun, broken := make(chan struct{}), make(chan error, 1)
	l := connect(t, func(ctx context.Context, st *link.Stream, _ *sandboxv1.Action) {
		close(begun)
		_, err := takeUpload(ctx, st)
		broken <- err
	})
	_, parts := chunks(100_000)
	if err := Relay(t.Context(), l, write, &caller{upload: parts, cut: begun}); space.CodeOf(err) != space.CodeInvalid {
		t.Error(err)
	}
	var reset *link.ResetError
	if err := <-broken; !errors.As(err, &reset) || reset.Code != link.CodeCancelled {
		t.Errorf("the guest was told %v", err)
	}
}

func TestCallerThatGoesEndsTheCall(t *testing.T) {
	ended := make(chan struct{}, 2)
	l := connect(t, func(ctx context.Context, st *link.Stream, _ *sandboxv1.Action) {
		say(st, answer(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Ready{Ready: &sandboxv1.Ready{}}}))
		<-st.Done()
		ended <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	c := &caller{answered: cancel}
	if err := Relay(ctx, l, watch, c); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
	c.err = errors.New("gone")
	if err := Relay(t.Context(), l, watch, c); !errors.Is(err, c.err) {
		t.Error(err)
	}
}

func TestNothingMovesForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t, func(ctx context.Context, st *link.Stream, a *sandboxv1.Action) {
			if a.GetWatch() != nil {
				say(st, answer(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Ready{Ready: &sandboxv1.Ready{}}}))
				time.Sleep(100 * doTimeout)
				say(st, answer(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Event{Event: &sandboxv1.Event{Kind: "write", Path: "/x"}}}))
				say(st, done())
				return
			}
			<-st.Done()
		})
		began := time.Now()
		if err := Relay(t.Context(), l, stat, &caller{}); err != errIdle || time.Since(began) > doTimeout+silence {
			t.Errorf("a guest that's there and doesn't answer: %v after %s", err, time.Since(began))
		}
		c := &caller{}
		if err := Relay(t.Context(), l, watch, c); err != nil || len(c.answers) != 2 {
			t.Errorf("a watch: %v, %v", c.answers, err)
		}
	})
}

// TestWedgedGuestCostsADeadline: it took the call and says nothing any more, to nobody.
func TestWedgedGuestCostsADeadline(t *testing.T) {
	for name, a := range map[string]*sandboxv1.Action{"read": read, "write": write, "remove": remove, "watch": watch} {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t, func(_ context.Context, st *link.Stream, a *sandboxv1.Action) {
				if a.GetRead() != nil {
					say(st, answer(entry("/x")))
				}
				<-st.Done()
			}, wedged)
			began := time.Now()
			err := Relay(t.Context(), l, a, &caller{})
			if took := time.Since(began); err != errWedged || took != silence+aliveTimeout {
				t.Errorf("%s: %v after %s", name, err, took)
			}
		})
	}
}

// TestSlowGuestIsWaitedFor: a large file takes its time to be on the disk, a caller who has much to say takes it, too.
func TestSlowGuestIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t, func(ctx context.Context, st *link.Stream, a *sandboxv1.Action) {
			time.Sleep(doTimeout - time.Second)
			say(st, answer(entry("/x")))
			time.Sleep(doTimeout - time.Second)
			say(st, done())
		})
		if err := Relay(t.Context(), l, stat, &caller{}); err != nil {
			t.Error(err)
		}
	})
}

func TestGuestsAnswersAreChecked(t *testing.T) {
	bad := func(change func(*sandboxv1.Entry)) *guestv1.FromFiles {
		m := entry("/x")
		change(m.GetEntry())
		return answer(m)
	}
	many := &sandboxv1.Entries{}
	for range maxEntries/2 + 1 {
		many.Entries = append(many.Entries, &sandboxv1.Entry{Path: "/", Type: "file"})
	}
	listed := answer(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entries{Entries: many}})
	for name, c := range map[string]struct {
		action *sandboxv1.Action
		say    []*guestv1.FromFiles
		want   space.Code
	}{
		"success":             {stat, []*guestv1.FromFiles{answer(entry("/x")), done()}, ""},
		"nothing to answer":   {remove, []*guestv1.FromFiles{done()}, ""},
		"no answer":           {stat, []*guestv1.FromFiles{done()}, space.CodeGuest},
		"closes":              {stat, nil, space.CodeGuest},
		"twice":               {stat, []*guestv1.FromFiles{answer(entry("/x")), answer(entry("/x")), done()}, space.CodeGuest},
		"another's answer":    {stat, []*guestv1.FromFiles{answer(data([]byte("x"))), done()}, space.CodeGuest},
		"too many entries":    {list, []*guestv1.FromFiles{listed, listed, done()}, space.CodeGuest},
		"content first":       {read, []*guestv1.FromFiles{answer(data([]byte("x"))), done()}, space.CodeGuest},
		"long content":        {read, []*guestv1.FromFiles{answer(entry("/x")), answer(data(make([]byte, MaxData+1))), done()}, space.CodeGuest},
		"more than the range": {ranged, []*guestv1.FromFiles{answer(entry("/x")), answer(data([]byte("1234"))), done()}, space.CodeGuest},
		"type":                {stat, []*guestv1.FromFiles{bad(func(e *sandboxv1.Entry) { e.Type = "door" })}, space.CodeGuest},
		"relative path":       {stat, []*guestv1.FromFiles{bad(func(e *sandboxv1.Entry) { e.Path = "x" })}, space.CodeGuest},
		"long target":         {stat, []*guestv1.FromFiles{bad(func(e *sandboxv1.Entry) { e.Target = string(make([]byte, maxPath+1)) })}, space.CodeGuest},
		"mode":                {stat, []*guestv1.FromFiles{bad(func(e *sandboxv1.Entry) { e.Mode = 0o10000 })}, space.CodeGuest},
		"its own error":       {stat, []*guestv1.FromFiles{failed("not_found", "no")}, space.CodeNotFound},
		"somebody's error":    {stat, []*guestv1.FromFiles{failed("route_stale", "no")}, space.CodeGuest},
		"a range":             {read, []*guestv1.FromFiles{failed("range_unsatisfiable", "no")}, space.CodeRange},
		"no range":            {stat, []*guestv1.FromFiles{failed("range_unsatisfiable", "no")}, space.CodeGuest},
		"no error":            {stat, []*guestv1.FromFiles{failed("", "")}, space.CodeGuest},
		"event":               {watch, []*guestv1.FromFiles{answer(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Ready{}}), answer(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Event{Event: &sandboxv1.Event{Kind: "?"}}})}, space.CodeGuest},
		"sessions":            {stat, []*guestv1.FromFiles{answer(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Sessions{}})}, space.CodeGuest},
	} {
		l := connect(t, func(_ context.Context, st *link.Stream, _ *sandboxv1.Action) {
			for _, m := range c.say {
				say(st, m)
			}
		})
		if err := Relay(t.Context(), l, c.action, &caller{}); space.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestBrokenLinkIsAnErrorOfItsOwn(t *testing.T) {
	served := make(chan struct{})
	l := connect(t, func(ctx context.Context, st *link.Stream, _ *sandboxv1.Action) {
		close(served)
		<-st.Done()
	})
	go func() { <-served; l.Close() }()
	if err := Relay(t.Context(), l, stat, &caller{}); !errors.Is(err, link.ErrClosed) {
		t.Error(err)
	}
}

// FuzzAnswer gives the rules of each action any answer.
func FuzzAnswer(f *testing.F) {
	for _, m := range []*sandboxv1.CallResponse{entry("/x"), data([]byte("x"))} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	actions := []*sandboxv1.Action{stat, list, remove, read, ranged, write, watch, unpack}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := new(sandboxv1.CallResponse)
		if proto.Unmarshal(b, m) != nil {
			return
		}
		for _, a := range actions {
			r, ok := rulesOf(a)
			if !ok {
				t.Fatal("no rules")
			}
			out, err := r.check(m)
			if err == nil && (len(out.GetData()) > MaxData || len(out.GetEntry().GetPath()) > maxPath || len(out.ProtoReflect().GetUnknown()) > 0) {
				t.Errorf("passed on: %v", out)
			}
		}
	})
}

// TestGuestCodesAreInTheContract compares the errors that a guest may give to an action with those that the operations list that make it.
func TestGuestCodesAreInTheContract(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(contract.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	for _, item := range doc.Paths.Map() {
		for _, o := range item.Operations() {
			listed[o.OperationID] = apitest.Listed(doc, o)
		}
	}
	for operation, a := range map[string]*sandboxv1.Action{
		"statFile": stat, "listFiles": list, "removeFile": remove, "readFile": read, "headFile": read, "writeFile": write, "watchFiles": watch, "writeArchive": unpack,
		"readArchive":   {Action: &sandboxv1.Action_ReadArchive{}},
		"makeDirectory": {Action: &sandboxv1.Action_MakeDirectory{}},
		"renameFile":    {Action: &sandboxv1.Action_Rename{}},
		"changeFile":    {Action: &sandboxv1.Action_Change{}},
	} {
		r, ok := rulesOf(a)
		if !ok || len(listed[operation]) == 0 {
			t.Fatalf("%s: rules %v, listed %v", operation, ok, listed[operation])
		}
		for _, code := range slices.Concat(guestCodes, r.codes) {
			if !slices.Contains(listed[operation], string(code)) {
				t.Errorf("%s doesn't list %s", operation, code)
			}
		}
	}
}
