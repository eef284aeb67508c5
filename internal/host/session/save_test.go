package session

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// TestASuspendedSessionGoesOn in the set of the execution that is loaded from the snapshot, from where its clients are.
func TestASuspendedSessionGoesOn(t *testing.T) {
	g, dir := newFakeGuest(t), t.TempDir()
	set := openSet(t, filepath.Join(dir, "old"), Limits{})
	l := g.connect()
	set.Use(l)
	id := space.NewID(space.PrefixSession)
	p, whole := g.proc(id), text(300_000)
	p.print(whole[:200_000])
	w := attach(t, set, id, 0, false)
	w.awaitData(t, 200_000)
	set.Use(nil)
	l.Close()
	if n, err := set.Save(filepath.Join(dir, "snapshot")); n != 1 || err != nil {
		t.Fatalf("saved %d sessions, %v", n, err)
	}
	set.Suspend(space.Errorf(space.CodeConflict, "suspended"))
	if e := w.last(t).GetEnded(); e.GetReason() != reasonSuspended {
		t.Errorf("the client was told %v", e)
	}
	if err := set.Start(space.NewID(space.PrefixSession), &sessionv1.Spec{Argv: []string{"true"}}); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("a new one: %v", err)
	}
	place := filepath.Join(dir, "new")
	copies, err := Restore(filepath.Join(dir, "snapshot"), place, true)
	if err != nil || len(copies) != 1 || copies[0] != (Copy{Session: id, Of: id}) {
		t.Fatalf("restored %v, %v", copies, err)
	}
	next := openSet(t, place, Limits{})
	next.Use(g.connect())
	p.print(whole[200_000:])
	p.end(0)
	again := attach(t, next, id, 200_000, true)
	if again.last(t).GetExit() == nil || !bytes.Equal(again.data, whole[200_000:]) {
		t.Errorf("the client that came back got %d bytes, then %v", len(again.data), again.events[len(again.events)-1])
	}
	all := attach(t, next, id, 0, true)
	if all.last(t); !bytes.Equal(all.data, whole) {
		t.Errorf("one that reads all of it got %d bytes", len(all.data))
	}
}

// TestWhatACloneTakesOver has other ids for the clients, and the same ones for the guest, also in a clone of the clone.
func TestWhatACloneTakesOver(t *testing.T) {
	g, dir := newFakeGuest(t), t.TempDir()
	set := openSet(t, filepath.Join(dir, "source"), Limits{})
	set.Use(g.connect())
	running, ended, unheard := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	for _, id := range []string{running, ended} {
		attach(t, set, id, 0, false).awaitStarted(t)
	}
	set.Use(nil)
	attach(t, set, unheard, 0, false)
	if err := set.sessions[ended].setExit(&sessionv1.Exit{}); err != nil {
		t.Fatal(err)
	}
	from, of := set, running
	for _, name := range []string{"clone", "clone of the clone"} {
		snapshot, place := filepath.Join(dir, name+"'s snapshot"), filepath.Join(dir, name)
		if _, err := from.Save(snapshot); err != nil {
			t.Fatal(err)
		}
		copies, err := Restore(snapshot, place, false)
		if err != nil || len(copies) != 1 || copies[0].Of != of || copies[0].Session == of {
			t.Fatalf("%s restored %v, %v", name, copies, err)
		}
		of = copies[0].Session
		from = openSet(t, place, Limits{})
		if got := from.sessions[of].guest; got != running {
			t.Errorf("the %s asks its guest for %s, which knows %s", name, got, running)
		}
	}
}

func (w *watcher) awaitStarted(t *testing.T) {
	t.Helper()
	for {
		w.mu.Lock()
		n, changed := len(w.events), w.changed
		w.mu.Unlock()
		if n > 0 {
			return
		}
		<-changed
	}
}

func TestAClientThatIsAheadOfARollbackIsToldSo(t *testing.T) {
	dir := t.TempDir()
	g, set := newFakeGuest(t), openSet(t, filepath.Join(dir, "old"), Limits{})
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	g.proc(id).print([]byte("before"))
	attach(t, set, id, 0, false).awaitData(t, 6)
	set.Use(nil)
	if _, err := set.Save(filepath.Join(dir, "snapshot")); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(filepath.Join(dir, "snapshot"), filepath.Join(dir, "new"), true); err != nil {
		t.Fatal(err)
	}
	next := openSet(t, filepath.Join(dir, "new"), Limits{})
	ahead := attach(t, next, id, 7, true)
	if <-ahead.done; space.CodeOf(ahead.err) != space.CodeConflict {
		t.Errorf("it was told %v", ahead.err)
	}
}

// TestYield removes what goes on elsewhere from what is kept of other executions, and ends the rest.
func TestYield(t *testing.T) {
	dir := t.TempDir()
	ends, err := OpenEnds(filepath.Join(dir, "ends"), func() {})
	if err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(filepath.Join(dir, "store"), Limits{Ends: ends}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	older, newer := space.NewID(space.PrefixExecution), space.NewID(space.PrefixExecution)
	old, err := store.Set(older)
	if err != nil {
		t.Fatal(err)
	}
	g := newFakeGuest(t)
	old.Use(g.connect())
	taken, left := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	clients := map[string]*watcher{}
	for _, id := range []string{taken, left} {
		clients[id] = attach(t, old, id, 0, false)
		clients[id].awaitStarted(t)
	}
	snapshot := filepath.Join(dir, "snapshot")
	if _, err := old.Save(snapshot); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Yield([]string{taken}, newer, space.Errorf(space.CodeSessionLost, "rolled back")); err != nil {
			t.Fatal(err)
		}
	}
	if e := clients[taken].last(t).GetEnded(); e.GetReason() != reasonReplaced {
		t.Errorf("the client of what goes on was told %v", e)
	}
	if e := clients[left].last(t).GetLost(); e.GetError().GetCode() != string(space.CodeSessionLost) {
		t.Errorf("the client of what doesn't was told %v", e)
	}
	if old.has(taken) || exists(old.dir, space.HostLabel(taken)) {
		t.Error("the session that goes on is still there")
	}
	if told := ends.Untold(); len(told) != 1 || told[0].GetSession() != left {
		t.Errorf("the ends are %v", told)
	}
}

// FuzzRestored has anything as the files of a session in a snapshot: it's restored, opened and read, or refused.
func FuzzRestored(f *testing.F) {
	spec, err := proto.Marshal(&sessionv1.Spec{Argv: []string{"true"}})
	if err != nil {
		f.Fatal(err)
	}
	exit, err := proto.Marshal(&sessionv1.Exit{Code: 3, Offset: 5})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(spec, []byte{}, exit, []byte{}, []byte("ring"), true)
	f.Add(spec, []byte{}, []byte(nil), []byte("\n\x05ses_x"), []byte{0, 0, 0, 9, 0xff}, false)
	over, cancel := context.WithCancel(f.Context())
	cancel()
	f.Fuzz(func(t *testing.T, spec, started, exit, guest, output []byte, same bool) {
		dir, id := t.TempDir(), space.NewID(space.PrefixSession)
		from, place := filepath.Join(dir, "snapshot"), filepath.Join(dir, "sandbox", "execution")
		session := placeOf(from, id)
		if err := os.MkdirAll(session, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{specFile: spec, startedFile: started, exitFile: exit, guestFile: guest, "0000000000000000.seg": output} {
			if content == nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(session, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Restore(from, place, same); err != nil {
			return
		}
		set, _, err := open(place, Limits{}.orDefaults(), &retention{limit: 1 << 20, log: slog.New(slog.DiscardHandler)}, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		defer set.Close()
		for _, ses := range set.all() {
			log, err := ses.log()
			if err != nil {
				continue
			}
			r, err := log.Reader(0)
			if err != nil {
				continue
			}
			for err == nil {
				_, err = r.Next(over)
			}
			r.Close()
		}
	})
}
