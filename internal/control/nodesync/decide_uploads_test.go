package nodesync_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

// TestDecideUploads compares what is recorded of uploads with what a node has.
func TestDecideUploads(t *testing.T) {
	some, none := []record.UploadSeen{{ID: "upl_x", Bytes: 7}}, []record.UploadSeen{{ID: "upl_x"}}
	for _, x := range []struct {
		name             string
		wanted, reported []record.UploadSeen
		partly           bool
		seen             []record.UploadSeen
		orders           []nodesync.Order
	}{
		{name: "not there yet", wanted: none},
		{name: "arrived", wanted: none, reported: some, seen: some},
		{name: "known", wanted: some, reported: some},
		{name: "put again", wanted: []record.UploadSeen{{ID: "upl_x", Bytes: 9}}, reported: some, seen: some},
		{name: "gone", wanted: some, seen: none},
		{name: "perhaps gone", wanted: some, partly: true},
		{name: "deleted", reported: some, orders: []nodesync.Order{{Kind: nodesync.RemoveUpload, Upload: "upl_x"}}},
		{name: "deleted, reported twice", reported: append(some, some...), orders: []nodesync.Order{{Kind: nodesync.RemoveUpload, Upload: "upl_x"}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := nodesync.Decide(record.Wanted{Uploads: x.wanted}, nodesync.Report{Complete: !x.partly, Uploads: x.reported}, nil, now)
			if diff := cmp.Diff(x.orders, p.Orders) + cmp.Diff(x.seen, p.Uploads); diff != "" {
				t.Error(diff)
			}
			for _, o := range p.Orders {
				if !p.Repeats[o] {
					t.Errorf("%+v would be repeated at once", o)
				}
			}
		})
	}
}

// TestServiceTakesUploads reports uploads of which one is unknown, and too large a figure.
func TestServiceTakesUploads(t *testing.T) {
	a, b := space.NewID(space.PrefixUpload), space.NewID(space.PrefixUpload)
	store := &memory{wanted: record.Wanted{Uploads: []record.UploadSeen{{ID: a}}}}
	c := serve(t, store, fixedResolver{}, asNode())
	say := func(uploads ...*controlv1.UploadReport) (*connect.Response[controlv1.SynchronizeResponse], error) {
		return c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{Node: "n", Complete: true, MaxHang: durationpb.New(time.Minute), Uploads: uploads}))
	}
	res, err := say(&controlv1.UploadReport{Upload: a, Bytes: 1 << 63}, &controlv1.UploadReport{Upload: b, Bytes: 1})
	if err != nil || len(res.Msg.Orders) != 1 || res.Msg.Orders[0].GetRemoveUpload().GetUpload() != b {
		t.Fatalf("%v, %v", res, err)
	}
	if diff := cmp.Diff([]record.UploadSeen{{ID: a, Bytes: 1 << 40}}, store.seen[0].Uploads); diff != "" {
		t.Error(diff)
	}
	if _, err := say(&controlv1.UploadReport{Upload: "nonsense"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("an odd id: %v", err)
	}
}
