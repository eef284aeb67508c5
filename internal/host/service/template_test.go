package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/host/upload"
	"github.com/space-platform/space/internal/peer"
)

// uploads takes everything and gives back how much it was.
type uploads struct{ *rig }

func (s uploads) List() []upload.Stored { return []upload.Stored{{ID: "upl_a", Bytes: 7}} }

func (s uploads) Remove(ids []string) { s.unwanted = ids }

func (s uploads) Put(_ context.Context, u upload.Upload, next upload.Next) (upload.File, error) {
	f := upload.File{SHA256: u.SHA256}
	for {
		data, end, err := next()
		f.Bytes += int64(len(data))
		if err != nil || end {
			return f, errors.Join(err, s.err)
		}
	}
}

func TestTemplateOrderArrivesWhole(t *testing.T) {
	r, id := newRig(t), space.NewID(space.PrefixTemplate)
	order := &controlv1.EnsureTemplate{
		Template: id, Shape: &controlv1.Shape{Vcpus: 2, DiskBytes: 3}, NoCache: true, StartCommand: "start", ReadyCheck: "ready",
		Source:   &controlv1.Source{Source: &controlv1.Source_Debian{Debian: &controlv1.Debian{Suite: "sid", Packages: []string{"jq"}}}},
		Defaults: &controlv1.Defaults{User: "u"},
		Steps: []*controlv1.Step{
			{Step: &controlv1.Step_Run{Run: "true"}}, {Step: &controlv1.Step_Copy{Copy: &controlv1.Copy{Upload: "upl", To: "/x", Owner: "o"}}},
			{Step: &controlv1.Step_Set{Set: &controlv1.Defaults{Env: map[string]string{"A": "1"}, Workdir: "/w"}}},
		},
	}
	if _, err := r.host.EnsureTemplate(t.Context(), connect.NewRequest(&hostv1.EnsureTemplateRequest{Order: order})); err != nil {
		t.Fatal(err)
	}
	want := template.Order{
		Template: id, Size: rootfs.Size{VCPUs: 2, DiskBytes: 3}, NoCache: true, Start: "start", Ready: "ready",
		Debian: &rootfs.Debian{Suite: "sid", Packages: []string{"jq"}}, Defaults: template.Defaults{User: "u"},
		Steps: []template.Step{
			{Run: "true"}, {Copy: &template.Copy{Upload: "upl", To: "/x", Owner: "o"}},
			{Set: &template.Defaults{Env: map[string]string{"A": "1"}, Workdir: "/w"}},
		},
	}
	if diff := cmp.Diff(want, r.built); diff != "" {
		t.Error(diff)
	}
}

func TestTemplatesAreRemovedAndAcknowledged(t *testing.T) {
	r := newRig(t)
	for id, code := range map[string]space.Code{space.NewID(space.PrefixTemplate): "", "tpl_../x": space.CodeInvalid} {
		_, err := r.host.RemoveTemplate(t.Context(), connect.NewRequest(&hostv1.RemoveTemplateRequest{Order: &controlv1.RemoveTemplate{Template: id}}))
		if space.CodeOf(peer.FromConnect(err)) != code {
			t.Errorf("%s: %v", id, err)
		}
	}
	got := &hostv1.AcknowledgeRequest{LogLines: map[string]uint64{"a": 1}, UnwantedUploads: []string{"upl_a"}}
	if _, err := r.host.Acknowledge(t.Context(), connect.NewRequest(got)); err != nil || r.received["a"] != 1 || !slices.Equal(r.unwanted, []string{"upl_a"}) {
		t.Errorf("%v, %v, %v", r.received, r.unwanted, err)
	}
}

func TestStatusHasTheUploads(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := r.host.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	defer cancel()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	if got := stream.Msg().GetUploads(); len(got) != 1 || got[0].GetUpload() != "upl_a" || got[0].GetBytes() != 7 {
		t.Errorf("%v", got)
	}
}

func TestUploadArrivesWholeOrNotAtAll(t *testing.T) {
	r := newRig(t)
	head := &uploadv1.Upload{Id: space.NewID(space.PrefixUpload), Node: "here", MaxBytes: 1 << 40, Sha256: "sum"}
	elsewhere := &uploadv1.Upload{Id: head.Id, Node: "there", MaxBytes: 1}
	for name, test := range map[string]struct {
		messages []*uploadv1.PutRequest
		bytes    uint64
		code     space.Code
	}{
		"in one":         {[]*uploadv1.PutRequest{{Upload: head, Data: []byte("abc"), End: true}}, 3, ""},
		"in three":       {[]*uploadv1.PutRequest{{Upload: head}, {Data: []byte("abc")}, {Data: []byte("de"), End: true}}, 5, ""},
		"broken off":     {[]*uploadv1.PutRequest{{Upload: head}, {Data: []byte("abc")}}, 0, space.CodeInvalid},
		"without a head": {nil, 0, space.CodeInvalid},
		"of another":     {[]*uploadv1.PutRequest{{Upload: elsewhere, End: true}}, 0, space.CodeRouteStale},
		"in a large one": {[]*uploadv1.PutRequest{{Upload: head, Data: []byte(strings.Repeat("x", 32<<10+1)), End: true}}, 0, space.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.uploads.Put(t.Context())
			for _, m := range test.messages {
				if err := s.Send(m); err != nil {
					break // the answer says why
				}
			}
			a, err := s.CloseAndReceive()
			if space.CodeOf(peer.FromConnect(err)) != test.code || err == nil && a.Msg.GetBytes() != test.bytes {
				t.Errorf("got %v, %v", a, err)
			}
		})
	}
}
