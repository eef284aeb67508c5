package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// TestFilters lists sandboxes by their metadata and their states.
func TestFilters(t *testing.T) {
	r := newRig(t)
	r.template(t)
	create := func(metadata map[string]string) string {
		return r.do(t, "POST", "/v1/sandboxes?wait=30s", map[string]any{"template": "mini", "metadata": metadata}).accepted(t).Sandbox.Id
	}
	odd := "k e=y&%1"
	plain, both, strange, gone := create(map[string]string{}), create(map[string]string{"task": "7", "user": "ada"}), create(map[string]string{"task": "8", odd: "v=1&ü"}), create(map[string]string{"task": "7"})
	r.do(t, "DELETE", "/v1/sandboxes/"+gone+"?wait=30s", nil).want(t, 200)
	r.node.end(plain, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "the VMM was killed"))
	r.state(t, plain, gen.SandboxStateLost)
	list := func(query url.Values) []string {
		page := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes?"+query.Encode(), nil).want(t, 200))
		out := []string{}
		for _, s := range page.Items {
			out = append(out, s.Id)
		}
		return out
	}
	for _, x := range []struct {
		name  string
		query url.Values
		want  []string
	}{
		{"nothing", nil, []string{strange, both, plain}},
		{"one entry", url.Values{"metadata": {"task=7"}}, []string{both}},
		{"two entries", url.Values{"metadata": {"task=7", "user=ada"}}, []string{both}},
		{"two that no sandbox has both of", url.Values{"metadata": {"task=8", "user=ada"}}, []string{}},
		{"a value that is part of one", url.Values{"metadata": {"user=ad"}}, []string{}},
		{"an empty value", url.Values{"metadata": {"task="}}, []string{}},
		{"quotes and wildcards", url.Values{"metadata": {"task=%", `user=' OR '1'='1`}}, []string{}},
		{"lost", url.Values{"state": {"lost"}}, []string{plain}},
		{"running", url.Values{"state": {"running"}}, []string{strange, both}},
		{"lost or running", url.Values{"state": {"lost", "running"}}, []string{strange, both, plain}},
		{"deleted", url.Values{"state": {"deleted"}}, []string{gone}},
		{"deleted, by metadata", url.Values{"state": {"deleted"}, "metadata": {"task=7"}}, []string{gone}},
		{"paused", url.Values{"state": {"paused"}}, []string{}},
	} {
		if got := list(x.query); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
	page := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes?state=running&limit=1", nil).want(t, 200))
	if page.NextCursor == nil || page.Items[0].Id != strange {
		t.Fatalf("%+v", page)
	}
	if got := list(url.Values{"state": {"running"}, "cursor": {*page.NextCursor}}); !slices.Equal(got, []string{both}) {
		t.Errorf("the second page: %v", got)
	}
}

// TestTemplatePages lists templates a page at a time, newest first.
func TestTemplatePages(t *testing.T) {
	r := newRig(t)
	var made []string
	for _, recipe := range []string{"mini", "base"} {
		o := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates?wait=30s", map[string]string{"recipe": recipe}).want(t, 201))
		made = append([]string{o.Template.Id}, made...)
	}
	first := decode[gen.TemplatePage](t, r.do(t, "GET", "/v1/templates?limit=1", nil).want(t, 200))
	if len(first.Items) != 1 || first.Items[0].Id != made[0] || first.NextCursor == nil {
		t.Fatalf("%+v", first)
	}
	second := decode[gen.TemplatePage](t, r.do(t, "GET", "/v1/templates?limit=1&cursor="+*first.NextCursor, nil).want(t, 200))
	if len(second.Items) != 1 || second.Items[0].Id != made[1] || second.NextCursor != nil {
		t.Errorf("%+v", second)
	}
}

// TestLargestFilter is the largest that the contract allows, as large as it gets on the wire.
func TestLargestFilter(t *testing.T) {
	r := newRig(t)
	q := url.Values{}
	for i := range 8 {
		q.Add("metadata", fmt.Sprintf("%d%s=%s", i, strings.Repeat("😀", 63), strings.Repeat("😀", 1024)))
	}
	for _, s := range space.States() {
		q.Add("state", string(s))
	}
	r.do(t, "GET", "/v1/sandboxes?"+q.Encode(), nil).want(t, 200)
	q.Set("metadata", strings.Repeat("😀", 64)+"="+strings.Repeat("😀", 1025))
	r.do(t, "GET", "/v1/sandboxes?"+q.Encode(), nil).code(t, space.CodeInvalid)
}
