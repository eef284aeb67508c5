//go:build vm

package host_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/internal/host/image/imagetest"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/peer"
)

// TestTemplates builds templates from what people have, with real machines.
func TestTemplates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, story := range []struct {
		name string
		run  func(t *testing.T, r *rig)
	}{
		{"an image without anything but a program", scratchImage},
		{"an image with musl's ways and without bash, and steps on it", alpineImage},
		{"a root file system without /etc/passwd", rootfsArchive},
		{"a start command runs in each sandbox", startCommand},
		{"directories and owners are made as asked for", owners},
		{"a failed step is named, and what came before it is kept", failedStep},
		{"a shape gets its snapshot", newShape},
		{"a removed build ends", removedBuild},
	} {
		r.sub(story.name, func(t *testing.T) { story.run(t, r) })
	}
}

// build orders a template, waits for its end and returns what the node says of it, with the log.
func (r *rig) build(o *controlv1.EnsureTemplate) (*controlv1.TemplateReport, string) {
	r.t.Helper()
	o.Template = space.NewID(space.PrefixTemplate)
	began := time.Now()
	if _, err := r.host.EnsureTemplate(r.t.Context(), connect.NewRequest(&hostv1.EnsureTemplateRequest{Order: o})); err != nil {
		r.t.Fatal(err)
	}
	var report *controlv1.TemplateReport
	var lines strings.Builder
	newest := uint64(0)
	r.await("the template", 10*time.Minute, func(w *hostv1.WatchResponse) bool {
		for _, x := range w.GetTemplates() {
			if x.GetTemplate() != o.Template {
				continue
			}
			for _, l := range x.GetLog() {
				if l.GetNumber() > newest {
					newest = l.GetNumber()
					fmt.Fprintf(&lines, "%d: %s\n", l.GetStep(), l.GetText())
				}
			}
			report = x
		}
		r.acknowledge(o.Template, newest)
		return report.GetState() == "ready" || report.GetState() == "failed"
	})
	r.t.Logf("%s after %s:\n%s", report.GetState(), time.Since(began).Round(time.Millisecond), lines.String())
	return report, lines.String()
}

func (r *rig) acknowledge(template string, newest uint64) {
	r.t.Helper()
	_, err := r.host.Acknowledge(r.t.Context(), connect.NewRequest(&hostv1.AcknowledgeRequest{LogLines: map[string]uint64{template: newest}}))
	if err != nil {
		r.t.Fatal(err)
	}
}

// ready builds a template that is to be ready.
func (r *rig) ready(o *controlv1.EnsureTemplate) (*controlv1.TemplateReport, string) {
	r.t.Helper()
	report, lines := r.build(o)
	if report.GetState() != "ready" {
		r.t.Fatalf("the build failed in step %d: %v", report.GetFailedStep(), report.GetError())
	}
	return report, lines
}

func (r *rig) removeTemplate(id string) {
	r.t.Helper()
	_, err := r.host.RemoveTemplate(r.t.Context(), connect.NewRequest(&hostv1.RemoveTemplateRequest{Order: &controlv1.RemoveTemplate{Template: id}}))
	if err != nil {
		r.t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(r.volume().Path, "templates", space.HostLabel(id)+"*"))
	if err != nil || len(left) > 0 {
		r.t.Errorf("left are %v, %v", left, err)
	}
}

// as runs a command with a template's defaults to its end and returns what it printed.
func (r *rig) as(d *controlv1.Defaults, route space.Route, argv ...string) string {
	r.t.Helper()
	c := r.client(route, argv...)
	c.spec = &sessionv1.Spec{Argv: argv, User: d.GetUser(), Cwd: d.GetWorkdir(), Env: d.GetEnv()}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := c.attach(ctx, func(int) {}); err != nil {
		r.t.Fatalf("run %q: %v", argv, err)
	}
	if exit := c.last.GetExit(); exit == nil || exit.GetCode() != 0 {
		r.t.Fatalf("run %q: printed %q, then %v", argv, c.data, c.last)
	}
	return string(c.data)
}

// upload stages bytes and returns the upload's id.
func (r *rig) upload(b []byte) string {
	r.t.Helper()
	id := space.NewID(space.PrefixUpload)
	s := uploadv1connect.NewUploadServiceClient(peer.Client(r.socket(), 0), "http://host").Put(r.t.Context())
	if err := s.Send(&uploadv1.PutRequest{Upload: &uploadv1.Upload{Id: id, Node: r.Instance.Node(), MaxBytes: 1 << 30, Project: space.NewID(space.PrefixProject), ProjectBytes: 1 << 30}}); err != nil {
		r.t.Fatal(err)
	}
	for len(b) > 0 {
		n := min(len(b), maxChunk)
		if err := s.Send(&uploadv1.PutRequest{Data: b[:n]}); err != nil {
			r.t.Fatal(err)
		}
		b = b[n:]
	}
	if err := s.Send(&uploadv1.PutRequest{End: true}); err != nil {
		r.t.Fatal(err)
	}
	if a, err := s.CloseAndReceive(); err != nil || len(a.Msg.GetSha256()) != 64 {
		r.t.Fatalf("upload: %v, %v", a, err)
	}
	return id
}

// file is an entry of an archive.
type file struct {
	name, link, body string
	mode             int64
}

func pack(t *testing.T, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.body)), Linkname: f.link}
		if f.link != "" {
			h.Typeflag = tar.TypeSymlink
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// push serves an image of layers and returns its reference.
func push(t *testing.T, config v1.Config, layers ...[]byte) string {
	t.Helper()
	return imagetest.Push(t, imagetest.Image(t, config, layers...))
}

func image(reference string) *controlv1.Source {
	return &controlv1.Source{Source: &controlv1.Source_Image{Image: reference}}
}

// static compiles a program that says who and where it is.
func static(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := `package main

import (
	"fmt"
	"os"
)

func main() {
	dir, err := os.Getwd()
	fmt.Println(os.Getuid(), dir, err, os.Getenv("GREETING"), os.Getenv("HOME"))
	for _, p := range []string{"/proc/self/stat", "/dev/null", "/sys/class", "/tmp", "/etc/hosts"} {
		if _, err := os.Stat(p); err != nil {
			fmt.Println(err)
		}
	}
}
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "program", "main.go")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func scratchImage(t *testing.T, r *rig) {
	program := static(t)
	config := v1.Config{Env: []string{"GREETING=hi"}, User: "4711:12", WorkingDir: "/data/here", Entrypoint: []string{"/program"}}
	report, _ := r.ready(&controlv1.EnsureTemplate{Source: image(push(t, config, pack(t, file{name: "program", body: program, mode: 0o755})))})
	route := r.route()
	r.ensure(report.GetTemplate(), route)
	if got := r.as(report.GetDefaults(), route, "/program"); got != "4711 /data/here <nil> hi /\n" {
		t.Errorf("it printed %q", got)
	}
	r.remove(route)
	r.removeTemplate(report.GetTemplate())
}

// musl is a tree as small distributions have it.
func musl(t *testing.T) []byte {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	busybox, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := []file{{name: "bin/busybox", body: string(busybox), mode: 0o755}, {name: "lib", link: "usr/lib"}}
	for _, c := range []string{"sh", "cat", "echo", "id", "ls", "mkdir", "chmod", "stat", "sleep", "test", "wc", "df", "pwd", "env", "touch", "tail", "true", "false", "nc", "ps", "seq"} {
		files = append(files, file{name: "bin/" + c, link: "/bin/busybox"})
	}
	return pack(t, files...)
}

func alpineImage(t *testing.T, r *rig) {
	reference := push(t, v1.Config{Env: []string{"PATH=/bin:/opt/bin"}}, musl(t),
		pack(t, file{name: "etc/passwd", body: "root:x:0:0::/root:/bin/sh\napp:x:100:101::/home/app:/bin/sh\n", mode: 0o644}, file{name: "gone", body: "1", mode: 0o644},
			file{name: "etc/machine-id", body: "0123456789abcdef0123456789abcdef\n", mode: 0o444}),
		pack(t, file{name: ".wh.gone", mode: 0o644}, file{name: "lib/in-usr", body: "1", mode: 0o644}))
	copied := r.upload(pack(t, file{name: "bin/", mode: 0o755}, file{name: "bin/hello", body: "#!/bin/sh\necho hello from $0\n", mode: 0o755}))
	order := func() *controlv1.EnsureTemplate {
		return &controlv1.EnsureTemplate{
			Source: image(reference),
			Steps: []*controlv1.Step{
				{Step: &controlv1.Step_Set{Set: &controlv1.Defaults{Env: map[string]string{"STEP": "one"}, Workdir: "/srv"}}},
				{Step: &controlv1.Step_Run{Run: "pwd; id -u; echo $STEP > made; seq 3; busybox rm /etc/machine-id && echo short > /etc/machine-id"}},
				{Step: &controlv1.Step_Copy{Copy: &controlv1.Copy{Upload: copied, To: "/opt", Owner: "app"}}},
				{Step: &controlv1.Step_Set{Set: &controlv1.Defaults{User: "app", Workdir: "/opt"}}},
				{Step: &controlv1.Step_Run{Run: "hello; touch mine; test ! -e /gone && test -e /usr/lib/in-usr"}},
			},
			Defaults: &controlv1.Defaults{Env: map[string]string{"LAST": "1"}},
		}
	}
	o := order()
	report, lines := r.ready(o)
	for _, want := range []string{"2: /srv", "2: 0", "2: 3", "5: hello from"} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line %q", want)
		}
	}
	route := r.route()
	r.ensure(report.GetTemplate(), route)
	if got := r.as(report.GetDefaults(), route, "sh", "-c", "id -u; pwd; cat /srv/made; stat -c %u mine bin/hello; echo $LAST$STEP; wc -c </etc/machine-id"); got != "100\n/opt\none\n100\n100\n1one\n33\n" {
		t.Errorf("it printed %q", got)
	}
	r.remove(route)
	again, lines := r.ready(o)
	if strings.Contains(lines, "hello from") || !strings.Contains(lines, "5: step 5 is as it was") {
		t.Error("a step ran again")
	}
	if got, want := fmt.Sprint(again.GetDefaults()), fmt.Sprint(report.GetDefaults()); got != want {
		t.Errorf("the defaults are %s, want %s", got, want)
	}
	based, _ := r.ready(&controlv1.EnsureTemplate{
		Source: &controlv1.Source{Source: &controlv1.Source_Template{Template: report.GetTemplate()}},
		Steps:  []*controlv1.Step{{Step: &controlv1.Step_Run{Run: "hello > /opt/based"}}},
		Shape:  &controlv1.Shape{DiskBytes: report.GetShape().GetDiskBytes() + 1<<30},
	})
	r.ensure(based.GetTemplate(), route2(r, &route))
	if got := r.as(based.GetDefaults(), route, "cat", "/opt/based"); !strings.HasPrefix(got, "hello from") {
		t.Errorf("it printed %q", got)
	}
	r.remove(route)
	for _, x := range []*controlv1.TemplateReport{report, again, based} {
		r.removeTemplate(x.GetTemplate())
	}
}

// route2 makes another route of a variable.
func route2(r *rig, to *space.Route) space.Route {
	*to = r.route()
	return *to
}

func rootfsArchive(t *testing.T, r *rig) {
	report, _ := r.ready(&controlv1.EnsureTemplate{
		Source: &controlv1.Source{Source: &controlv1.Source_Rootfs{Rootfs: r.upload(musl(t))}},
		Steps:  []*controlv1.Step{{Step: &controlv1.Step_Run{Run: "id -u > /who; ls -d /proc /dev /sys /run /tmp"}}},
		Shape:  &controlv1.Shape{DiskBytes: 96 << 20, MemoryBytes: 128 << 20},
	})
	if got := report.GetShape().GetDiskBytes(); got != 96<<20 {
		t.Errorf("its disk has %d bytes", got)
	}
	route := r.route()
	r.ensure(report.GetTemplate(), route)
	if got := r.as(report.GetDefaults(), route, "/bin/cat", "/who", "/etc/hosts"); !strings.HasPrefix(got, "0\n127.0.0.1 localhost\n") || !strings.Contains(got, "127.0.1.1\tsbx-") {
		t.Errorf("it printed %q", got)
	}
	r.remove(route)
	r.removeTemplate(report.GetTemplate())
}

func startCommand(t *testing.T, r *rig) {
	report, lines := r.ready(&controlv1.EnsureTemplate{
		Recipe: "mini", Defaults: &controlv1.Defaults{User: "user", Workdir: "/home/user"},
		StartCommand: "echo starting; sleep 1; touch ready; i=0; while true; do i=$((i+1)); echo line $i; echo $i > count; sleep 1; done",
		ReadyCheck:   "test -e ready",
	})
	if !strings.Contains(lines, "1: starting") {
		t.Error("no output of the start command")
	}
	route := r.route()
	r.ensure(report.GetTemplate(), route)
	before := r.as(report.GetDefaults(), route, "cat", "count")
	r.as(report.GetDefaults(), route, "sh", "-c", "c=$(cat count); while test $c = $(cat count); do sleep 1; done")
	if after := r.as(report.GetDefaults(), route, "cat", "count"); after == before {
		t.Errorf("it counts %s and then %s", before, after)
	}
	r.remove(route)
	failed, _ := r.build(&controlv1.EnsureTemplate{Recipe: "mini", StartCommand: "echo no way; exit 3", ReadyCheck: "sleep 1000"})
	if failed.GetState() != "failed" || failed.GetFailedStep() != template.AfterSteps || failed.GetError().GetField() != "start_command" ||
		failed.GetError().GetMessage() != `the start command "echo no way; exit 3" failed: it ended with status 3; it printed last: no way` {
		t.Errorf("got %v", failed)
	}
	for _, x := range []*controlv1.TemplateReport{report, failed} {
		r.removeTemplate(x.GetTemplate())
	}
}

// owners has working directories that aren't there, in steps and as the default, and copies for other owners.
func owners(t *testing.T, r *rig) {
	set := func(d *controlv1.Defaults) *controlv1.Step { return &controlv1.Step{Step: &controlv1.Step_Set{Set: d}} }
	copied := func(to, owner string) *controlv1.Step {
		upload := r.upload(pack(t, file{name: "sub/", mode: 0o750}, file{name: "sub/tool", body: "1", mode: 0o4755}, file{name: "deep/down", body: "1", mode: 0o600}))
		return &controlv1.Step{Step: &controlv1.Step_Copy{Copy: &controlv1.Copy{Upload: upload, To: to, Owner: owner}}}
	}
	report, lines := r.ready(&controlv1.EnsureTemplate{
		Recipe: "mini", StartCommand: "pwd > started",
		Steps: []*controlv1.Step{
			set(&controlv1.Defaults{User: "root"}), set(&controlv1.Defaults{Workdir: "/srv/a/b"}),
			{Step: &controlv1.Step_Run{Run: "pwd; mkdir -p /srv/there/sub; touch /srv/there/old"}},
			copied("/srv/there", "user:12"), copied("/srv/new/place", "user"), copied("/srv/roots", ""),
			set(&controlv1.Defaults{User: "user"}), set(&controlv1.Defaults{Workdir: "/w/mine"}),
		},
		Defaults: &controlv1.Defaults{Workdir: "/d/mine"},
	})
	if !strings.Contains(lines, "3: /srv/a/b") {
		t.Errorf("the step didn't run in its directory")
	}
	route := r.route()
	r.ensure(report.GetTemplate(), route)
	got := r.as(report.GetDefaults(), route, "sh", "-c", "pwd; cat started; cd /srv; stat -c '%n %u:%g %a' /d /d/mine /w/mine a/b there there/old there/sub there/sub/tool there/deep there/deep/down "+
		"new new/place new/place/sub/tool roots roots/deep/down")
	want := `/d/mine
/d/mine
/d 1000:1000 755
/d/mine 1000:1000 755
/w/mine 1000:1000 755
a/b 0:0 755
there 0:0 755
there/old 0:0 644
there/sub 1000:12 750
there/sub/tool 1000:12 4755
there/deep 1000:12 755
there/deep/down 1000:12 600
new 1000:1000 755
new/place 1000:1000 755
new/place/sub/tool 1000:1000 4755
roots 0:0 755
roots/deep/down 0:0 600
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	r.remove(route)
	r.removeTemplate(report.GetTemplate())
}

func failedStep(t *testing.T, r *rig) {
	order := func(last string, noCache bool) *controlv1.EnsureTemplate {
		return &controlv1.EnsureTemplate{Recipe: "mini", NoCache: noCache, Steps: []*controlv1.Step{
			{Step: &controlv1.Step_Set{Set: &controlv1.Defaults{User: "root"}}}, {Step: &controlv1.Step_Run{Run: "echo first; echo kept > /kept"}}, {Step: &controlv1.Step_Run{Run: last}},
		}}
	}
	failed, _ := r.build(order("echo about to fail; exit 42", false))
	if e := failed.GetError(); failed.GetState() != "failed" || failed.GetFailedStep() != 3 || e.GetField() != "steps[2]" || e.GetCode() != string(space.CodeGuest) ||
		!strings.Contains(e.GetMessage(), "status 42") || !strings.Contains(e.GetMessage(), "about to fail") {
		t.Errorf("got %v", failed)
	}
	if left, err := filepath.Glob(filepath.Join(r.volume().Path, "templates", "*"+space.HostLabel(failed.GetTemplate())+"*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	good, lines := r.ready(order("cat /kept", false))
	if strings.Contains(lines, "2: first") || !strings.Contains(lines, "3: kept") {
		t.Error("the first step's disk wasn't kept")
	}
	anew, lines := r.ready(order("cat /kept", true))
	if !strings.Contains(lines, "2: first") {
		t.Error("nothing was built anew")
	}
	for _, x := range []*controlv1.TemplateReport{failed, good, anew} {
		r.removeTemplate(x.GetTemplate())
	}
}

func newShape(t *testing.T, r *rig) {
	report, _ := r.ready(&controlv1.EnsureTemplate{Recipe: "mini", StartCommand: "sleep 1000", Defaults: &controlv1.Defaults{User: "user"}})
	shape := &controlv1.Shape{Vcpus: 1, MemoryBytes: 384 << 20, DiskBytes: 256 << 20}
	create := func() time.Duration {
		route := r.route()
		took := r.order(&controlv1.EnsureExecution{Route: peer.RouteMessage(route), Template: report.GetTemplate(), Shape: shape})
		got := r.as(report.GetDefaults(), route, "sh", "-c", "df -m / | tail -1; ps")
		if size := strings.Fields(got); len(size) < 2 || len(size[1]) != 3 || size[1] < "200" || !strings.Contains(got, "sleep 1000") {
			t.Errorf("it printed %q", got)
		}
		r.remove(route)
		return took
	}
	first := create()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		took := create()
		if took*2 < first {
			t.Logf("booted in %s, loaded in %s", first, took)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the first one took %s, and there is still no snapshot of the shape: %s", first, took)
		}
	}
	touchAll(r, report.GetTemplate(), report.GetDefaults(), shape)
	r.removeTemplate(report.GetTemplate())
}

// touchAll has a loaded machine use every page that it was promised: the guest keeps what it reads, which is nothing on its disk. Where machines share the snapshot's memory the
// host needs each page twice that the snapshot lacks.
func touchAll(r *rig, template string, d *controlv1.Defaults, shape *controlv1.Shape) {
	r.t.Helper()
	route := r.route()
	r.order(&controlv1.EnsureExecution{Route: peer.RouteMessage(route), Template: template, Shape: shape})
	got := r.as(d, route, "sh", "-c", fmt.Sprintf("cd /tmp && truncate -s %d nothing && cat nothing >/dev/null && awk '/^MemFree/ { print $2 / 1024 }' /proc/meminfo", 2*shape.GetMemoryBytes()))
	if free, err := strconv.ParseFloat(strings.TrimSpace(got), 64); err != nil || free > 64 {
		r.t.Errorf("%q MiB are free in the guest, %v: it didn't use its memory", got, err)
	}
	r.remove(route)
}

func removedBuild(t *testing.T, r *rig) {
	o := &controlv1.EnsureTemplate{Template: space.NewID(space.PrefixTemplate), Recipe: "mini", Steps: []*controlv1.Step{{Step: &controlv1.Step_Run{Run: "echo up; sleep 600"}}}}
	if _, err := r.host.EnsureTemplate(t.Context(), connect.NewRequest(&hostv1.EnsureTemplateRequest{Order: o})); err != nil {
		t.Fatal(err)
	}
	r.await("the step", time.Minute, func(w *hostv1.WatchResponse) bool {
		for _, x := range w.GetTemplates() {
			for _, l := range x.GetLog() {
				if x.GetTemplate() == o.Template && l.GetText() == "up" {
					return true
				}
			}
		}
		return false
	})
	r.removeTemplate(o.Template)
	if left := r.machines(); len(left) > 0 {
		t.Errorf("machines %v still run", left)
	}
}
