package execution

import (
	"context"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/snapshot"
)

// TestASnapshotIsReadyOrWasNever ends the daemon in each step of a snapshot of one that runs: it runs on, and the snapshot is made when it's ordered again.
func TestASnapshotIsReadyOrWasNever(t *testing.T) {
	for _, step := range []string{"rest", "pause", "save", "finish", "freeze"} {
		for _, how := range []string{"TERM", "KILL"} {
			t.Run(step+" "+how, func(t *testing.T) {
				r := newRig(t)
				table, o := r.open(), order()
				ensure(t, table, o, space.ExecutionRunning)
				r.scribble(o, "files")
				_, ses := begin(t, table, o.Route)
				there := r.stopInSuspend(step)
				id := snapshotID()
				if err := table.TakeSnapshot(t.Context(), o.Route, id, snapshot.Full); err != nil {
					t.Fatal(err)
				}
				<-there
				r.endLife(t, table, how)
				table = r.open()
				if s, ok := r.snapshots.Find(id); ok {
					t.Errorf("the snapshot is %+v", s)
				}
				awaitState(t, table, o, space.ExecutionRunning)
				eventually(t, "the machine runs", func() bool { return !r.running()[0].paused.Load() })
				if err := table.Guest(t.Context(), o.Route, func(*link.Link) error { return nil }); err != nil {
					t.Errorf("a call afterwards: %v", err)
				}
				if err := table.TakeSnapshot(t.Context(), o.Route, id, snapshot.Full); err != nil {
					t.Fatal(err)
				}
				s := r.awaitSnapshot(t, id)
				f := forkOf(s)
				got := ensure(t, table, f, space.ExecutionRunning)
				r.checkDisk(f, "files")
				if len(got.Sessions) != 1 || got.Sessions[0].Of != ses {
					t.Errorf("its sessions are %v", got.Sessions)
				}
				remove(t, table, f.Route)
				remove(t, table, o.Route)
				r.checkNothingLeft()
			})
		}
	}
}

// TestALoadIsDoneOrWasNever ends the daemon in each step of a load from a snapshot, of a fork's child, a restored sandbox and one that is rolled back: the next life finishes
// it, and until then what it replaces is there.
func TestALoadIsDoneOrWasNever(t *testing.T) {
	for verb, of := range map[string]func(snapshot.Report) Order{"fork": forkOf, "restore": from, "rollback": from} {
		for _, step := range []string{"enclose", "load", "greet"} {
			for _, how := range []string{"TERM", "KILL"} {
				t.Run(verb+" "+step+" "+how, func(t *testing.T) {
					r := newRig(t)
					table, o := r.open(), order()
					ensure(t, table, o, space.ExecutionRunning)
					r.scribble(o, "before")
					_, ses := begin(t, table, o.Route)
					var s snapshot.Report
					was := space.ExecutionRunning
					if verb == "restore" {
						was, s = space.ExecutionSuspended, suspend(t, r, table, o, snapshotID())
					} else {
						s = r.takeFull(t, table, o)
						r.scribble(o, "after ")
					}
					next := of(s)
					there := r.stopAt(step)
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() {
						defer close(done)
						table.Ensure(ctx, next) // it goes on without whoever asked
					}()
					<-there
					cancel()
					<-done
					r.endLife(t, table, how)
					table = r.open()
					if got := stateOf(t, table, o); got != was {
						t.Errorf("what it's loaded of is %s, want %s", got, was)
					}
					ensure(t, table, next, space.ExecutionRunning)
					r.checkDisk(next, "before")
					if verb == "fork" {
						r.checkDisk(o, "after ")
					} else {
						client(t, table, next.Route, ses, 5)
					}
					remove(t, table, o.Route)
					remove(t, table, next.Route)
					if err := r.snapshots.Remove(s.Snapshot); err != nil {
						t.Fatal(err)
					}
					r.checkNothingLeft()
				})
			}
		}
	}
}
