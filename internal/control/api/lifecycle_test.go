package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

func TestLifeOfASandbox(t *testing.T) {
	r := newRig(t)
	r.template(t)
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini","metadata":{"task":"7"}}`).want(t, 201))
	box := *o.Sandbox
	if box.State != gen.SandboxStateRunning || box.Template != "mini" || box.Metadata["task"] != "7" || box.Execution.Epoch != 1 || box.Execution.Node != nodeName {
		t.Fatalf("created sandbox: %+v", box)
	}
	if got := decode[gen.Sandbox](t, r.do(t, "GET", "/v1/sandboxes/"+box.Id, nil).want(t, 200)); !cmp.Equal(got, box) {
		t.Error(cmp.Diff(box, got))
	}
	page := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes", nil).want(t, 200))
	if len(page.Items) != 1 || page.Items[0].Id != box.Id {
		t.Errorf("list: %+v", page)
	}
	first := decode[gen.Operation](t, r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200))
	if first.Status != gen.OperationStatusSucceeded || first.Sandbox.State != gen.SandboxStateDeleted {
		t.Errorf("delete: %+v", first)
	}
	again := decode[gen.Operation](t, r.do(t, "DELETE", "/v1/sandboxes/"+box.Id, nil).want(t, 200))
	if !cmp.Equal(first, again) {
		t.Error(cmp.Diff(first, again))
	}
	r.state(t, box.Id, gen.SandboxStateDeleted)
	if page := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes", nil)); len(page.Items) != 0 {
		t.Errorf("a deleted sandbox is listed: %+v", page)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", `{"shell":"true"}`).code(t, space.CodeConflict)
}

func TestFailedSandbox(t *testing.T) {
	r := newRig(t)
	r.template(t)
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
			return space.ExecutionFailed, space.Errorf(space.CodeCapacity, "no room")
		}
	})
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`).want(t, 201))
	if o.Status != gen.OperationStatusFailed || o.Error == nil || o.Error.Code != string(space.CodeCapacity) || o.Sandbox.State != gen.SandboxStateFailed {
		t.Fatalf("operation: %+v", o)
	}
	if o.Sandbox.Error == nil || *o.Sandbox.Error.Detail != "no room" {
		t.Errorf("the sandbox doesn't say why: %+v", o.Sandbox)
	}
	r.do(t, "POST", "/v1/sandboxes/"+o.Sandbox.Id+"/sessions", `{"shell":"true"}`).code(t, space.CodeConflict)
	r.do(t, "DELETE", "/v1/sandboxes/"+o.Sandbox.Id+"?wait=30s", nil).want(t, 200)
}

func TestLostSandbox(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.node.end(box.Id, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "the VMM was killed"))
	lost := r.state(t, box.Id, gen.SandboxStateLost)
	if lost.Error == nil || lost.Error.Code != string(space.CodeExecutionLost) {
		t.Errorf("lost without its error: %+v", lost)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", `{"shell":"true"}`).code(t, space.CodeExecutionLost)
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200)
}

// TestVanishedSandbox has a node that says nothing of a machine that ran: it is lost, not created anew.
func TestVanishedSandbox(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.node.change(func() { clear(r.node.executions) })
	if lost := r.state(t, box.Id, gen.SandboxStateLost); lost.Error == nil || lost.Execution != box.Execution {
		t.Errorf("lost: %+v", lost)
	}
}

func TestDeleteBeforeItRan(t *testing.T) {
	r := newRig(t)
	r.template(t)
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionPending, nil }
	})
	create := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).want(t, 202))
	if create.Status != gen.OperationStatusRunning || create.Sandbox.State != gen.SandboxStateCreating {
		t.Fatalf("operation: %+v", create)
	}
	r.do(t, "DELETE", "/v1/sandboxes/"+create.Sandbox.Id+"?wait=30s", nil).want(t, 200)
	ended := decode[gen.Operation](t, r.do(t, "GET", "/v1/operations/"+create.Id, nil).want(t, 200))
	if ended.Status != gen.OperationStatusFailed || ended.Error.Code != string(space.CodeConflict) {
		t.Errorf("the create: %+v", ended)
	}
}

func TestWaitPasses(t *testing.T) {
	r := newRig(t)
	r.template(t)
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionPending, nil }
	})
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=1ms", `{"template":"mini"}`).want(t, 202))
	if got := decode[gen.Operation](t, r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=1ms", nil).want(t, 200)); got.Status != gen.OperationStatusRunning {
		t.Errorf("operation: %+v", got)
	}
}

// TestStopAnswersWaiters stops the server while a client waits: it gets the operation as it is.
func TestStopAnswersWaiters(t *testing.T) {
	r := newRig(t)
	r.template(t)
	began := make(chan struct{})
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
			select {
			case <-began:
			default:
				close(began)
			}
			return space.ExecutionPending, nil
		}
	})
	go func() { <-began; r.stop() }()
	r.do(t, "POST", "/v1/sandboxes?wait=300s", `{"template":"mini"}`).want(t, 202)
}

func TestTemplates(t *testing.T) {
	r := newRig(t)
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).code(t, space.CodeNotFound)
	r.node.change(func() {
		r.node.build = func(string) record.TemplateStatus {
			return record.TemplateStatus{State: record.TemplateFailed, Error: space.Errorf(space.CodeInternal, "no space left")}
		}
	})
	failed := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates?wait=30s", `{"recipe":"mini"}`).want(t, 201))
	if failed.Status != gen.OperationStatusFailed || *failed.Template.Error.Detail != "no space left" {
		t.Fatalf("failed build: %+v", failed)
	}
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).code(t, space.CodeTemplateNotReady)
	r.node.change(func() {
		r.node.build = func(string) record.TemplateStatus {
			return record.TemplateStatus{State: record.TemplateBuilding, Progress: "unpacking"}
		}
	})
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`).want(t, 202))
	if o.Id == failed.Id || o.Template.Id == failed.Template.Id {
		t.Fatalf("the second build is the first one: %+v", o)
	}
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).code(t, space.CodeTemplateNotReady)
	if same := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`).want(t, 202)); same.Id != o.Id {
		t.Errorf("a template that is being built got another operation")
	}
	r.node.change(func() {
		r.node.templates[o.Template.Id] = record.TemplateStatus{State: record.TemplateReady, Digest: "sha256:01", Shape: record.Shape{VCPUs: 2, MemoryBytes: 256 << 20, DiskBytes: 64 << 20}}
	})
	ready := *decode[gen.Operation](t, r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200)).Template
	if ready.State != gen.TemplateStateReady || ready.Vcpus != 2 || *ready.Digest != "sha256:01" {
		t.Errorf("ready template: %+v", ready)
	}
	for _, path := range []string{"/v1/templates/mini", "/v1/templates/" + ready.Id} {
		if got := decode[gen.Template](t, r.do(t, "GET", path, nil).want(t, 200)); !cmp.Equal(got, ready) {
			t.Error(cmp.Diff(ready, got))
		}
	}
	if list := decode[gen.TemplatePage](t, r.do(t, "GET", "/v1/templates", nil).want(t, 200)); len(list.Items) != 1 || list.Items[0].Id != ready.Id {
		t.Errorf("list: %+v", list)
	}
}

func TestPages(t *testing.T) {
	r := newRig(t)
	r.template(t)
	var made []string
	for range 5 {
		o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`))
		made = append([]string{o.Sandbox.Id}, made...)
	}
	var got []string
	path := "/v1/sandboxes?limit=2"
	for range 3 {
		page := decode[gen.SandboxPage](t, r.do(t, "GET", path, nil).want(t, 200))
		for _, s := range page.Items {
			got = append(got, s.Id)
		}
		if page.NextCursor == nil {
			break
		}
		path = "/v1/sandboxes?limit=2&cursor=" + *page.NextCursor
	}
	if !cmp.Equal(got, made) {
		t.Error(cmp.Diff(made, got))
	}
}
