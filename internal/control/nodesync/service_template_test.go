package nodesync_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/peer"
)

func asNode() nodesync.Peers { return nodesync.Peers{Node: os.Geteuid(), Edge: nobody} }

// TestServiceOrdersWholeBuilds compares the orders for a build from each source with what they're made from.
func TestServiceOrdersWholeBuilds(t *testing.T) {
	shape := record.Shape{VCPUs: 2, MemoryBytes: 3, DiskBytes: 4}
	wantShape := &controlv1.Shape{Vcpus: 2, MemoryBytes: 3, DiskBytes: 4}
	none := &controlv1.Defaults{}
	for name, x := range map[string]struct {
		build record.Build
		want  *controlv1.EnsureTemplate
	}{
		"recipe": {record.Build{Source: record.Source{Recipe: "mini"}, NoCache: true},
			&controlv1.EnsureTemplate{Recipe: "mini", NoCache: true, Defaults: none}},
		"debian": {record.Build{Source: record.Source{Debian: &record.Debian{Suite: "bookworm", Packages: []string{"git"}}}},
			&controlv1.EnsureTemplate{Source: &controlv1.Source{Source: &controlv1.Source_Debian{Debian: &controlv1.Debian{Suite: "bookworm", Packages: []string{"git"}}}}, Defaults: none}},
		"image": {record.Build{Source: record.Source{Image: "alpine"}, StartCommand: "serve", ReadyCheck: "true", Defaults: record.Defaults{User: "u", Workdir: "/w", Env: map[string]string{"A": "1"}}},
			&controlv1.EnsureTemplate{Source: &controlv1.Source{Source: &controlv1.Source_Image{Image: "alpine"}}, StartCommand: "serve", ReadyCheck: "true",
				Defaults: &controlv1.Defaults{User: "u", Workdir: "/w", Env: map[string]string{"A": "1"}}}},
		"archive": {record.Build{Source: record.Source{Archive: "upl_a"}},
			&controlv1.EnsureTemplate{Source: &controlv1.Source{Source: &controlv1.Source_Archive{Archive: "upl_a"}}, Defaults: none}},
		"rootfs": {record.Build{Source: record.Source{Rootfs: "upl_a"}},
			&controlv1.EnsureTemplate{Source: &controlv1.Source{Source: &controlv1.Source_Rootfs{Rootfs: "upl_a"}}, Defaults: none}},
		"template and steps": {record.Build{Source: record.Source{Template: "tpl_a"}, Steps: []record.Step{
			{Run: "true"}, {Copy: &record.Copy{Upload: "upl_a", To: "/srv", Owner: "root"}}, {Set: &record.Defaults{User: "u"}},
		}},
			&controlv1.EnsureTemplate{Source: &controlv1.Source{Source: &controlv1.Source_Template{Template: "tpl_a"}}, Defaults: none, Steps: []*controlv1.Step{
				{Step: &controlv1.Step_Run{Run: "true"}}, {Step: &controlv1.Step_Copy{Copy: &controlv1.Copy{Upload: "upl_a", To: "/srv", Owner: "root"}}},
				{Step: &controlv1.Step_Set{Set: &controlv1.Defaults{User: "u"}}},
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			id := space.NewID(space.PrefixTemplate)
			store := &memory{wanted: record.Wanted{Templates: []record.WantedTemplate{{ID: id}}}, builds: map[string]record.BuildOrder{id: {Template: id, Shape: shape, Build: x.build}}}
			c := serve(t, store, fixedResolver{}, asNode())
			res, err := c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{Node: "n", Complete: true}))
			if err != nil || len(res.Msg.Orders) != 1 {
				t.Fatalf("%v, %v", res, err)
			}
			x.want.Template, x.want.Shape = id, wantShape
			if diff := cmp.Diff(x.want, res.Msg.Orders[0].GetEnsureTemplate(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestServiceOrdersFewBuildsAtATime has more templates wanted than an answer takes, and one that was deleted meanwhile.
func TestServiceOrdersFewBuildsAtATime(t *testing.T) {
	store := &memory{builds: map[string]record.BuildOrder{}}
	for i := range 9 {
		id := space.NewID(space.PrefixTemplate)
		store.wanted.Templates = append(store.wanted.Templates, record.WantedTemplate{ID: id})
		if i > 0 {
			store.builds[id] = record.BuildOrder{Template: id, Build: record.Build{Source: record.Source{Recipe: "mini"}}}
		}
	}
	c := serve(t, store, fixedResolver{}, asNode())
	ordered := map[string]bool{}
	for range 3 {
		res, err := c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{Node: "n", Complete: true}))
		if err != nil || len(res.Msg.Orders) > 4 {
			t.Fatalf("%v, %v", res, err)
		}
		for _, o := range res.Msg.Orders {
			ordered[o.GetEnsureTemplate().GetTemplate()] = true
		}
	}
	if len(ordered) != 8 {
		t.Errorf("%d templates were ordered", len(ordered))
	}
}

// TestServiceTakesLogs reports lines: the call doesn't hang, and answers up to which number it has them.
func TestServiceTakesLogs(t *testing.T) {
	id := space.NewID(space.PrefixTemplate)
	store := &memory{wanted: record.Wanted{Templates: []record.WantedTemplate{{ID: id, Recorded: record.TemplateStatus{State: record.TemplateBuilding}}}}}
	c := serve(t, store, fixedResolver{}, asNode())
	at := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	res, err := c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{
		Node: "n", Complete: true, MaxHang: durationpb.New(time.Minute), Templates: []*controlv1.TemplateReport{{
			Template: id, State: "building", Log: []*controlv1.LogLine{
				{Number: 3, At: timestamppb.New(at), Step: 2, Text: "\x1b[31mred\x1b[0m\r\n\x00\tend \t"}, {Number: 9, At: timestamppb.New(at), Text: strings.Repeat("ü", 3000)},
			},
		}},
	}))
	if err != nil || res.Msg.LogsReceived[id] != 9 {
		t.Fatalf("%v, %v", res, err)
	}
	want := []record.LogSeen{{Template: id, Lines: []record.LogLine{
		{Number: 3, At: at.Truncate(time.Microsecond), Step: 2, Text: "[31mred[0m\tend"}, {Number: 9, At: at.Truncate(time.Microsecond), Text: strings.Repeat("ü", 2048)},
	}}}
	if diff := cmp.Diff(want, store.seen[0].Logs); diff != "" {
		t.Error(diff)
	}
}

func TestServiceRefusesLogs(t *testing.T) {
	c := serve(t, &memory{}, fixedResolver{}, asNode())
	lines := func(numbers ...uint64) []*controlv1.LogLine {
		var out []*controlv1.LogLine
		for _, n := range numbers {
			out = append(out, &controlv1.LogLine{Number: n})
		}
		return out
	}
	for name, x := range map[string]struct {
		log  []*controlv1.LogLine
		want space.Code
	}{
		"no number":    {lines(0), space.CodeInvalid},
		"twice":        {lines(1, 1), space.CodeInvalid},
		"backwards":    {lines(2, 1), space.CodeInvalid},
		"huge numbers": {lines(1<<40 + 1), space.CodeInvalid},
		"many lines":   {make([]*controlv1.LogLine, 201), space.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			for i, l := range x.log {
				if l == nil {
					x.log[i] = &controlv1.LogLine{Number: uint64(i + 1)}
				}
			}
			_, err := c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{
				Node: "n", Templates: []*controlv1.TemplateReport{{Template: space.NewID(space.PrefixTemplate), State: "building", Log: x.log}},
			}))
			if got := space.CodeOf(peer.FromConnect(err)); got != x.want {
				t.Errorf("code %s, want %s: %v", got, x.want, err)
			}
		})
	}
}

// TestServiceReadsDefaults has an image set more than a session can be given: what can't be is left out.
func TestServiceReadsDefaults(t *testing.T) {
	id := space.NewID(space.PrefixTemplate)
	store := &memory{wanted: record.Wanted{Templates: []record.WantedTemplate{{ID: id}}}}
	c := serve(t, store, fixedResolver{}, asNode())
	env := map[string]string{"PATH": "/bin", "A.B": "x", "": "x", "A=B": "x", "NUL": "a\x00b", "LONG": strings.Repeat("l", 128<<10)}
	for i := range 300 {
		env[fmt.Sprintf("Z%04d", i)] = "z"
	}
	if _, err := c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{Node: "n", Complete: true, Templates: []*controlv1.TemplateReport{{
		Template: id, State: "ready", FailedStep: 7, Defaults: &controlv1.Defaults{Env: env, User: "app", Workdir: "/app"},
	}}})); err != nil {
		t.Fatal(err)
	}
	got := store.seen[0].Templates[0].Defaults
	if got.User != "app" || got.Workdir != "/app" || got.Env["PATH"] != "/bin" || got.Env["Z0000"] == "" || len(got.Env) != 256 {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"", "A.B", "A=B", "NUL", "LONG", "Z0299"} {
		if _, there := got.Env[name]; there {
			t.Errorf("%q is set", name)
		}
	}
}

// TestServiceTakesEndsOfSessions reports how sessions ended: the call doesn't hang, and answers which it has.
func TestServiceTakesEndsOfSessions(t *testing.T) {
	store := &memory{}
	c := serve(t, store, fixedResolver{}, asNode())
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	a, b, d := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	res, err := c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{
		Node: "n", Complete: true, MaxHang: durationpb.New(time.Minute), SessionEnds: []*controlv1.SessionEnd{
			{Session: a, At: timestamppb.New(at), OutputBytes: 9, Exit: &sessionv1.Exit{Code: 3, TimedOut: true}},
			{Session: b, At: timestamppb.New(at), Exit: &sessionv1.Exit{Signal: 9, SignalName: "SIGKILL", Stopped: true}},
			{Session: d, At: timestamppb.New(at), Lost: &routev1.Error{Code: "execution_lost", Message: "gone"}},
			{Session: "nonsense"},
		},
	}))
	if err != nil || !slices.Equal(res.Msg.SessionEndsReceived, []string{a, b, d, "nonsense"}) {
		t.Fatalf("%v, %v", res, err)
	}
	code := int32(3)
	want := []record.SessionEnd{
		{Session: a, At: at, Code: &code, TimedOut: true, OutputBytes: 9}, {Session: b, At: at, Signal: "SIGKILL", Stopped: true}, {Session: d, At: at, Lost: true, Error: "gone"},
	}
	if diff := cmp.Diff(want, store.seen[0].Sessions); diff != "" {
		t.Error(diff)
	}
}
