//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// buildDeadline bounds a template's build.
const buildDeadline = 5 * time.Minute

// buildTemplate builds a template that lives as long as the test, and returns the operation when it has ended.
func buildTemplate(t *testing.T, in client.TemplateCreate) client.Operation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildDeadline)
	defer cancel()
	op, err := platform.client.BeginCreateTemplate(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := platform.client.DeleteTemplate(context.WithoutCancel(t.Context()), op.Template.Id); err != nil {
			t.Errorf("delete the template: %v", err)
		}
	})
	for op.Status == gen.OperationStatusRunning {
		if op, err = platform.client.GetOperation(ctx, op.Id, 30*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	return op
}

// onMini is a request to build on mini, as root.
func onMini(name string, steps ...client.TemplateStep) client.TemplateCreate {
	steps = append([]client.TemplateStep{{User: ptr("root")}}, steps...)
	return client.TemplateCreate{Name: &name, Template: ptr("mini"), Steps: &steps}
}

func wantReady(t *testing.T, op client.Operation) client.Template {
	t.Helper()
	if op.Status != gen.OperationStatusSucceeded || op.Template == nil || op.Template.State != gen.TemplateStateReady {
		t.Fatalf("the build: %s, %+v", op.Status, op.Error)
	}
	return *op.Template
}

func logOf(t *testing.T, template string) string {
	t.Helper()
	var out strings.Builder
	for l, err := range platform.client.TemplateLogs(t.Context(), template) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d %s\n", *l.Step, l.Text)
	}
	return out.String()
}

// tarOf is an archive of files.
func tarOf(t *testing.T, files map[string]string) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

// TestTemplateInSteps builds a template with every kind of step and a program that runs in its snapshot, and looks at it from a sandbox.
func TestTemplateInSteps(t *testing.T) {
	upload, err := platform.client.Upload(t.Context(), tarOf(t, map[string]string{"motd": "welcome\n"}))
	if err != nil {
		t.Fatal(err)
	}
	var step client.TemplateStep
	step.Copy = &struct {
		Owner  *string `json:"owner,omitempty"`
		To     string  `json:"to"`
		Upload string  `json:"upload"`
	}{To: "/srv", Upload: upload}
	in := onMini("steps", client.TemplateStep{Run: ptr("echo from step one; mkdir -p /srv; echo made > /srv/made")}, step,
		client.TemplateStep{Env: &gen.Environment{"GREETING": "hello"}}, client.TemplateStep{Workdir: ptr("/srv")})
	in.Tags = &[]string{"v1"}
	in.StartCommand = ptr("echo up > /tmp/up; exec sleep 100000")
	in.ReadyCheck = ptr("test -s /tmp/up")
	tpl := wantReady(t, buildTemplate(t, in))
	if log := logOf(t, "steps:v1"); !strings.Contains(log, "2 from step one\n") {
		t.Errorf("the log:\n%s", log)
	}
	s := create(t, "steps:v1")
	runIn(t, s, client.SessionCreate{Shell: ptr("pwd; cat made motd /tmp/up; echo $GREETING")}).want(t, 0, "/srv\nmade\nwelcome\nup\nhello\n", "")
	wantCode(t, platform.client.DeleteTemplate(t.Context(), tpl.Id), "conflict")
}

// TestTemplateVersions builds a name twice: the second takes it, and the sandbox of the first goes on.
func TestTemplateVersions(t *testing.T) {
	one := wantReady(t, buildTemplate(t, onMini("versions", client.TemplateStep{Run: ptr("echo one > /version")})))
	s := create(t, "versions")
	two := wantReady(t, buildTemplate(t, onMini("versions", client.TemplateStep{Run: ptr("echo two > /version")})))
	if _, err := platform.client.SetTemplateTag(t.Context(), one.Id, "old"); err != nil {
		t.Fatal(err)
	}
	cat := client.SessionCreate{Shell: ptr("cat /version")}
	runIn(t, s, cat).want(t, 0, "one\n", "")
	runIn(t, create(t, "versions"), cat).want(t, 0, "two\n", "")
	runIn(t, create(t, "versions:old"), cat).want(t, 0, "one\n", "")
	if again := buildAgain(t, onMini("versions", client.TemplateStep{Run: ptr("echo two > /version")})); again.Id != two.Id {
		t.Error("the same content was built again")
	}
}

// buildAgain builds what is there, and isn't the test's to delete a second time.
func buildAgain(t *testing.T, in client.TemplateCreate) client.Template {
	t.Helper()
	op, err := platform.client.BeginCreateTemplate(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return wantReady(t, op)
}

// TestTemplateBuildFails names the step, says why, and leaves a log.
func TestTemplateBuildFails(t *testing.T) {
	op := buildTemplate(t, onMini("fails", client.TemplateStep{Run: ptr("true")}, client.TemplateStep{Run: ptr("echo about to fail; exit 3")}))
	if op.Status != gen.OperationStatusFailed || op.Template.State != gen.TemplateStateFailed || *op.Template.FailedStep != 3 || !strings.HasPrefix(*op.Error.Detail, "step 3: ") {
		t.Errorf("%+v, %+v", op.Template, op.Error)
	}
	if log := logOf(t, op.Template.Id); !strings.Contains(log, "3 about to fail\n") {
		t.Errorf("the log:\n%s", log)
	}
	_, err := platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "fails"})
	wantCode(t, err, "template_not_ready")
}

// TestBuildsSideBySide has a build take for ever, and another one of the same project ready beside it.
func TestBuildsSideBySide(t *testing.T) {
	slow, err := platform.client.BeginCreateTemplate(t.Context(), onMini("slow", client.TemplateStep{Run: ptr("sleep 100000")}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := platform.client.DeleteTemplate(context.WithoutCancel(t.Context()), slow.Template.Id); err != nil {
			t.Errorf("delete the template: %v", err)
		}
	})
	wantReady(t, buildTemplate(t, onMini("quick", client.TemplateStep{Run: ptr("true")})))
	if now, err := platform.client.GetTemplate(t.Context(), slow.Template.Id); err != nil || now.State != gen.TemplateStateBuilding {
		t.Errorf("the slow one is %+v, %v", now, err)
	}
}
