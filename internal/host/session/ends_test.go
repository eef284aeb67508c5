package session

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

func openEnds(t *testing.T, dir string, changed func()) *Ends {
	t.Helper()
	e, err := OpenEnds(dir, changed)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEndsAreToldUntilAcknowledged has a session that exits and one that is lost: both are told, by the next life of the daemon too, until they were
// acknowledged.
func TestEndsAreToldUntilAcknowledged(t *testing.T) {
	dir, changed := t.TempDir(), make(chan struct{}, 10)
	ends := openEnds(t, dir, func() { changed <- struct{}{} })
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{Ends: ends})
	set.Use(g.connect())
	exits, dies := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	p := g.proc(exits)
	p.print([]byte("hello"))
	w := attach(t, set, exits, 0, false)
	p.end(7)
	w.last(t)
	p.await(t, "the guest to be told to forget", func() bool { return p.forgotten })
	g.proc(dies).print([]byte("x"))
	w = attach(t, set, dies, 0, false)
	w.awaitData(t, 1)
	set.End(space.Errorf(space.CodeExecutionLost, "it's gone"))
	w.last(t)
	<-changed
	<-changed
	check := func(e *Ends, want ...string) {
		t.Helper()
		var got []string
		for _, m := range e.Untold() {
			got = append(got, fmt.Sprint(m.GetSession(), " ", m.GetExit().GetCode(), " ", m.GetLost().GetMessage(), " ", m.GetOutputBytes(), " ", m.GetAt().AsTime().IsZero()))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("told are %q, want %q", got, want)
		}
	}
	one, other := exits+" 7  5 false", dies+" 0 it's gone 1 false"
	check(ends, one, other)
	changes := 0
	again := openEnds(t, dir, func() { changes++ })
	check(again, one, other)
	again.Acknowledge([]string{exits, "ses_unknown"})
	check(again, other)
	check(openEnds(t, dir, func() {}), other)
	again.Acknowledge([]string{dies})
	again.Acknowledge([]string{dies})
	if changes != 2 { // the last one, too: else the report that tells it stands
		t.Errorf("the report has changed %d times, want 2", changes)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestEndOfWhichTheGuestHeardNothingIsTold has a machine that is lost between a session's exit and the guest's forgetting it, and once more the life
// of the daemon.
func TestEndOfWhichTheGuestHeardNothingIsTold(t *testing.T) {
	dir, at := t.TempDir(), timestamppb.New(time.Unix(7, 0))
	ends := openEnds(t, t.TempDir(), func() {})
	set := openSet(t, dir, Limits{Ends: ends})
	ses, err := reserve(dir, space.NewID(space.PrefixSession), &sessionv1.Spec{Argv: []string{"x"}}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ses.log(); err != nil {
		t.Fatal(err)
	}
	if err := ses.setExit(&sessionv1.Exit{Code: 7, At: at}); err != nil {
		t.Fatal(err)
	}
	set.sessions[ses.id] = ses
	set.End(space.Errorf(space.CodeExecutionLost, "it's gone"))
	set.Close()
	again := openEnds(t, t.TempDir(), func() {})
	openSet(t, dir, Limits{Ends: again})
	for life, e := range []*Ends{ends, again} {
		if all := e.Untold(); len(all) != 1 || all[0].GetExit().GetCode() != 7 || all[0].GetLost() != nil || !proto.Equal(all[0].GetAt(), at) {
			t.Errorf("life %d tells %v", life+1, all)
		}
	}
}

// TestEndsAreBounded has the end that came first say by its guest's clock that it's the newest: it goes first all the same, also in the next life.
func TestEndsAreBounded(t *testing.T) {
	dir := t.TempDir()
	e := openEnds(t, dir, func() {})
	first := endedAt(t, time.Now().AddDate(70, 0, 0))
	e.add(first)
	if err := os.Chtimes(filepath.Join(dir, fileOf(first.id)), time.Time{}, time.Unix(7, 0)); err != nil {
		t.Fatal(err)
	}
	e = openEnds(t, dir, func() {})
	e.add(first) // the guest hadn't been told to forget it
	for range maxEnds - 1 {
		id := space.NewID(space.PrefixSession)
		e.ends[id] = end{&controlv1.SessionEnd{Session: id, At: timestamppb.New(time.Unix(2, 0))}, time.Unix(8, 0)}
	}
	if all := e.Untold(); len(all) != maxEndsTold || all[0].GetSession() != first.id {
		t.Errorf("%d are told, the first of %v", len(all), all[0].GetAt())
	}
	last := endedAt(t, time.Unix(1, 0))
	e.add(last)
	if _, ok := e.ends[first.id]; ok || len(e.ends) != maxEnds || e.ends[last.id].SessionEnd == nil {
		t.Errorf("%d are kept, the first among them: %v", len(e.ends), ok)
	}
}

// endedAt is a session that has ended at a time by its guest's clock.
func endedAt(t *testing.T, at time.Time) *Session {
	t.Helper()
	ses := newSession(space.NewID(space.PrefixSession), t.TempDir(), 0)
	ses.exit = &sessionv1.Exit{At: timestamppb.New(at)}
	return ses
}
