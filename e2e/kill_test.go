//go:build e2e && (long || firecracker)

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// Victims among the roles: the process of the sandbox's machine, and of a machine that is being started for it.
const (
	machineVictim instance.Role = "vmm"
	loadedVictim  instance.Role = "new-vmm"
)

// trial is one sandbox, a verb that is asked of it, and a kill while that is under way.
type trial struct {
	t      *testing.T
	box    client.Sandbox
	pid    string // of the process that remembers "old"
	later  string // of the one that remembers "now", with a rollback
	shot   client.Snapshot
	victim instance.Role
	killed int    // the machine's process, if it was
	tag    string // metadata of all that the trial makes
}

// killedVerb is a verb with what it needs before, what is sent, and what must be true afterwards, whenever something was killed.
type killedVerb struct {
	name   string
	before func(*trial)
	method string              // "" is POST
	path   func(*trial) string // nil: the verb's own
	query  func(*trial) string
	body   func(*trial) any
	after  func(*trial, client.Sandbox)
}

var (
	killedCreate   = killedVerb{name: "create", path: func(*trial) string { return "" }, body: (*trial).another, after: (*trial).othersRun}
	killedStop     = killedVerb{name: "stop", after: (*trial).stopsWhole}
	killedStart    = killedVerb{name: "start", before: first("stop"), after: (*trial).startsWhole}
	killedPause    = killedVerb{name: "pause", after: (*trial).wakesWhole}
	killedResume   = killedVerb{name: "resume", before: first("pause"), after: (*trial).wakesWhole}
	killedDelete   = killedVerb{name: "delete", method: http.MethodDelete, path: func(x *trial) string { return "/" + x.box.Id }, after: (*trial).isGoneOrWhole}
	killedSuspend  = killedVerb{name: "suspend", after: (*trial).wakesWhole}
	killedRestore  = killedVerb{name: "restore", before: first("suspend"), after: (*trial).wakesWhole}
	killedSnapshot = killedVerb{name: "snapshots", after: (*trial).snapshotIsWhole}
	killedFork     = killedVerb{name: "fork", body: func(x *trial) any { return map[string]any{"count": 2, "metadata": map[string]string{"trial": x.tag}} }, after: (*trial).childrenAreWhole}
	killedRollback = killedVerb{name: "rollback", before: (*trial).goOn, query: func(x *trial) string { return "snapshot=" + x.shot.Id }, after: (*trial).isThenOrNow}
)

// first does another verb before.
func first(other string) func(*trial) { return func(x *trial) { verb(x.t, x.box.Id, other) } }

func newTrial(t *testing.T, victim instance.Role) *trial {
	x := &trial{t: t, victim: victim, tag: fmt.Sprint(time.Now().UnixNano())}
	x.box = createAs(t, map[string]any{"metadata": map[string]string{"trial": x.tag}})
	x.pid = remember(t, x.box, "old")
	return x
}

// goOn takes a snapshot and changes what it has.
func (x *trial) goOn() {
	x.t.Helper()
	var err error
	if x.shot, err = platform.client.CreateSnapshot(x.t.Context(), x.box.Id, client.SnapshotCreate{}); err != nil {
		x.t.Fatal(err)
	}
	x.later = remember(x.t, x.box, "now")
}

// begin has what a verb needs.
func (x *trial) begin(v killedVerb) {
	if v.before != nil {
		v.before(x)
	}
}

// do has a verb done and the victim killed meanwhile, and waits until nothing is under way. It returns what has become of the sandbox, and what there was of a
// snapshot when something was killed.
func (x *trial) do(v killedVerb, moment func(asked <-chan struct{})) (now client.Sandbox, step string) {
	x.t.Helper()
	var body any
	if v.body != nil {
		body = v.body(x)
	}
	path := "/" + x.box.Id + "/" + v.name
	if v.path != nil {
		path = v.path(x)
	}
	path += "?wait=60s"
	if v.query != nil {
		path += "&" + v.query(x)
	}
	step = x.ask(cmp.Or(v.method, http.MethodPost), path, body, moment)
	return x.settle(), step
}

// ask asks for a verb, whose path goes on after that of all sandboxes, and kills the victim when moment returns, which is told of the answer that it has been done, or not. It returns what there was of a snapshot then, when both are over.
func (x *trial) ask(method, path string, body any, moment func(asked <-chan struct{})) (step string) {
	x.t.Helper()
	pid := 0
	if x.victim != "" && x.victim != machineVictim && x.victim != loadedVictim {
		pid = roles(x.t)[x.victim]
	}
	known, were := x.snapshots(), programs()
	asked := make(chan struct{})
	ctx, cancel := context.WithTimeout(x.t.Context(), bootDeadline)
	defer cancel()
	go func() {
		defer close(asked)
		text, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		if body == nil {
			text = nil
		}
		req, err := http.NewRequestWithContext(ctx, method, platform.url+"/v1/sandboxes"+path, bytes.NewReader(text))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+platform.key)
		if res, err := http.DefaultClient.Do(req); err == nil { // whoever answers may be killed before
			res.Body.Close()
			if x.victim == "" && res.StatusCode >= 300 {
				x.t.Errorf("%s %s: %s", method, path, res.Status)
			}
		}
	}()
	moment(asked)
	switch {
	case x.victim == loadedVictim:
		for _, p := range programs() {
			if !slices.Contains(were, p) {
				x.killed = p
				_ = syscall.Kill(p, syscall.SIGKILL) // it may have ended by itself
			}
		}
	case x.victim == machineVictim:
		if x.killed = x.machine(); x.killed != 0 {
			_ = syscall.Kill(x.killed, syscall.SIGKILL) // it may have ended by itself
		}
	case pid != 0:
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			x.t.Fatal(err)
		}
	}
	step = x.step(known)
	<-asked
	if pid != 0 {
		eventually(x.t, callDeadline, "role "+string(x.victim)+" is started again", func() bool {
			now := roles(x.t)[x.victim]
			return now != 0 && now != pid
		})
	}
	return step
}

// machine is the process of the sandbox's machine right now; 0: it has none.
func (x *trial) machine() int {
	records, _ := filepath.Glob(filepath.Join(platform.instance.Volume(), "executions", "*", "record.json"))
	for _, path := range records {
		var r struct {
			Route   struct{ Sandbox string }
			Machine *struct{ PID int }
		}
		b, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(b, &r) == nil && r.Route.Sandbox == x.box.Id && r.Machine != nil {
			return r.Machine.PID
		}
	}
	return 0
}

// programs are the processes in machines' cgroups: VMMs, and who starts them.
func programs() (all []int) {
	group := platform.instance.Cgroup()
	for _, path := range existing("/sys/fs/cgroup/"+group+"/*/cgroup.procs", "/sys/fs/cgroup/*/"+group+"/*/cgroup.procs") {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it's gone
		}
		for text := range strings.FieldsSeq(string(b)) {
			if p, err := strconv.Atoi(text); err == nil && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// existing are the paths that patterns match; one that ends with a slash matches directories only.
func existing(patterns ...string) (all []string) {
	for _, pattern := range patterns {
		plain, directories := strings.CutSuffix(pattern, "/") // with it nothing matches
		paths, _ := filepath.Glob(plain)                      // they have no mistake
		for _, p := range paths {
			if st, err := os.Stat(p); !directories || err == nil && st.IsDir() {
				all = append(all, p)
			}
		}
	}
	return all
}

// snapshots are the names in the node's directory of them.
func (x *trial) snapshots() map[string]bool {
	entries, err := os.ReadDir(filepath.Join(platform.instance.Volume(), "snapshots"))
	if err != nil {
		x.t.Fatal(err)
	}
	out := map[string]bool{}
	for _, e := range entries {
		out[e.Name()] = true
	}
	return out
}

// step says how far the making of a snapshot is.
func (x *trial) step(known map[string]bool) string {
	for name := range x.snapshots() {
		if known[name] {
			continue
		}
		if !strings.HasSuffix(name, ".new") {
			return "a snapshot with its name"
		}
		files, _ := filepath.Glob(filepath.Join(platform.instance.Volume(), "snapshots", name, "*"))
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		return "a snapshot with " + strings.Join(files, " ")
	}
	return "no new snapshot"
}

// settle waits until nothing is under way, and returns what has become of the sandbox.
func (x *trial) settle() (now client.Sandbox) {
	x.t.Helper()
	eventually(x.t, bootDeadline, "all that was under way has ended", func() bool {
		now = client.Sandbox{}
		for _, b := range x.all() {
			if !slices.Contains([]client.SandboxState{"running", "paused", "suspended", "stopped", "lost", "failed", "deleted"}, b.State) {
				return false
			}
			if b.Id != x.box.Id {
				continue
			}
			now = b
			if m := x.machine(); b.State == "running" && x.killed != 0 && (m == 0 || m == x.killed) { // not everybody knows yet
				return false
			}
		}
		for s, err := range platform.client.ListSnapshots(x.t.Context(), x.box.Id) {
			if err != nil || s.State == "making" {
				return false
			}
		}
		if now.Id == "" { // a deleted one isn't listed
			got, err := platform.client.GetSandbox(x.t.Context(), x.box.Id)
			if err == nil && got.State == "deleted" {
				now = got
			}
		}
		return now.Id != ""
	})
	eventually(x.t, callDeadline, "no snapshot is half", func() bool {
		for name := range x.snapshots() {
			if strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".unreadable") {
				return false
			}
		}
		return true
	})
	if now.State == "lost" && x.victim != machineVictim && x.victim != loadedVictim || now.State == "failed" {
		x.t.Fatalf("the sandbox is %s: %+v", now.State, now.Error)
	}
	return now
}

// all are the sandboxes of the trial; none if the platform doesn't answer.
func (x *trial) all() (out []client.Sandbox) {
	for b, err := range platform.client.ListSandboxes(x.t.Context(), client.SandboxFilter{Metadata: map[string]string{"trial": x.tag}}) {
		if err != nil {
			return nil
		}
		out = append(out, b)
	}
	return out
}

// wakesWhole: it runs or can be woken, with all that it had; one whose machine was killed, too, if it has a recovery point.
func (x *trial) wakesWhole(now client.Sandbox) {
	x.t.Helper()
	if now.State == "lost" && now.RecoveryPoint == nil {
		x.startsFromItsDisk()
		return
	}
	var err error
	if now.State == "lost" {
		now, err = platform.client.RollbackSandbox(x.t.Context(), x.box.Id, "", false)
	} else {
		now, err = platform.client.WakeSandbox(x.t.Context(), x.box.Id)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	recalls(x.t, now, "old", x.pid)
}

// startsFromItsDisk: what was lost with its machine, and saved nowhere, has its disk.
func (x *trial) startsFromItsDisk() {
	x.t.Helper()
	verb(x.t, x.box.Id, "start")
	runIn(x.t, x.box, shell("true")).want(x.t, 0, "", "")
}

// stopsWhole: it runs on with all that it had, or it's stopped and starts with all that was on its disk, which is what its guest has written out if its machine was killed.
func (x *trial) stopsWhole(now client.Sandbox) {
	x.t.Helper()
	if now.State == "stopped" && x.victim == machineVictim {
		x.startsFromItsDisk()
		return
	}
	if now.State == "stopped" {
		x.startsWhole(now)
		return
	}
	x.wakesWhole(now)
}

// startsWhole: it runs, or can be started, with all that was on its disk when it was stopped.
func (x *trial) startsWhole(now client.Sandbox) {
	x.t.Helper()
	if now.State != "running" {
		verb(x.t, x.box.Id, "start")
	}
	runIn(x.t, x.box, shell("cat /root/note")).want(x.t, 0, "old", "")
}

// isGoneOrWhole: it's deleted, or nobody has heard that it's to be.
func (x *trial) isGoneOrWhole(now client.Sandbox) {
	x.t.Helper()
	if now.State != "deleted" {
		x.wakesWhole(now)
		return
	}
	if m := x.machine(); m != 0 {
		x.t.Errorf("it's deleted, and has process %d", m)
	}
}

// another is the body of a request for one sandbox more.
func (x *trial) another() any {
	return map[string]any{"template": "mini", "metadata": map[string]string{"trial": x.tag}}
}

// othersRun: what was created runs, and who was there before goes on.
func (x *trial) othersRun(now client.Sandbox) {
	x.t.Helper()
	x.others(func(b client.Sandbox) { runIn(x.t, b, shell("echo here")).want(x.t, 0, "here\n", "") })
	x.wakesWhole(now)
}

// snapshotIsWhole: the sandbox goes on, and a snapshot that is ready has all of it.
func (x *trial) snapshotIsWhole(now client.Sandbox) {
	x.t.Helper()
	for s, err := range platform.client.ListSnapshots(x.t.Context(), x.box.Id) {
		if err != nil {
			x.t.Fatal(err)
		}
		if s.State == "ready" {
			recalls(x.t, createAs(x.t, map[string]any{"snapshot": s.Id}), "old", x.pid)
		}
	}
	x.wakesWhole(now)
}

// childrenAreWhole: each child has all that its source had, or is gone if it never came to run; and the source goes on.
func (x *trial) childrenAreWhole(now client.Sandbox) {
	x.t.Helper()
	x.others(func(b client.Sandbox) { recalls(x.t, b, "old", x.pid) })
	x.wakesWhole(now)
}

// others looks at each sandbox that the verb made, which must run. They live as long as the trial.
func (x *trial) others(look func(client.Sandbox)) {
	x.t.Helper()
	for _, b := range x.all() {
		if b.Id == x.box.Id {
			continue
		}
		x.t.Cleanup(func() {
			if err := platform.client.DeleteSandbox(context.WithoutCancel(x.t.Context()), b.Id); err != nil {
				x.t.Error(err)
			}
		})
		if b.State != "running" {
			x.t.Errorf("%s is %s: %+v", b.Id, b.State, b.Error)
			continue
		}
		look(b)
	}
}

// isThenOrNow: it's what it was when the snapshot was taken, or what it became since; if that is lost, the former.
func (x *trial) isThenOrNow(now client.Sandbox) {
	x.t.Helper()
	var err error
	if now.State == "lost" {
		if now, err = platform.client.RollbackSandbox(x.t.Context(), x.box.Id, x.shot.Id, false); err != nil {
			x.t.Fatal(err)
		}
	}
	if said := runIn(x.t, now, shell("cat /root/note")); string(said.stdout) == "now" {
		recalls(x.t, now, "now", x.later)
		return
	}
	recalls(x.t, now, "old", x.pid)
}

// nothingLeft: the node has nothing of any sandbox, when all are deleted.
func (x *trial) nothingLeft() {
	for b, err := range platform.client.ListSandboxes(x.t.Context(), client.SandboxFilter{}) {
		if err != nil || b.State != "deleted" {
			x.t.Errorf("%+v, %v", b, err)
		}
	}
	eventually(x.t, 2*callDeadline, "no snapshot is left", func() bool { return len(x.snapshots()) == 0 })
	for _, dir := range []string{"executions", "sandboxes"} {
		left, err := filepath.Glob(filepath.Join(platform.instance.Volume(), dir, "*"))
		left = slices.DeleteFunc(left, func(path string) bool { // a machine that waits for a sandbox has no record yet
			_, err := os.Stat(filepath.Join(path, "record.json"))
			return dir == "executions" && err != nil
		})
		if err != nil || len(left) > 0 {
			x.t.Errorf("left in %s are %v, %v", dir, left, err)
		}
	}
}
