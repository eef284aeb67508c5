package execution

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/vmm"
)

func TestMemoryComesPageByPageIfThatIsWanted(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	if r.pages != nil {
		t.Errorf("unasked its memory comes as %+v", r.pages)
	}
	remove(t, table, o.Route)
	table.Close()
	r.paged = true
	table, o = r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	if want := (vmm.Pages{WorkingSet: filepath.Join(r.dir, "set"), Snapshot: "digest"}); r.pages == nil || *r.pages != want {
		t.Errorf("its memory comes as %+v, want %+v", r.pages, want)
	}
	remove(t, table, o.Route)
}

// Who has lost a sandbox for that reads it, and no path; whether it's seen at once or by the next life.
func TestAMachineWithoutItsPagesIsLostForThatReason(t *testing.T) {
	for name, watched := range map[string]bool{"at once": true, "by the next life": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			m := r.running()[0]
			if !watched {
				table.Close()
			}
			r.fate = fmt.Errorf("%w: read /secret/path: input/output error", vmm.ErrPages)
			m.die()
			if !watched {
				table = r.open()
			}
			r.awaitFreed(t, table, o, space.ExecutionLost)
			err := ensure(t, table, o, space.ExecutionLost).Err
			if space.CodeOf(err) != space.CodeExecutionLost || !strings.Contains(err.Error(), "memory pages can't be had") || strings.Contains(err.Error(), "secret") {
				t.Errorf("its error is %v", err)
			}
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}
