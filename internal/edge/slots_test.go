package edge

import (
	"fmt"
	"testing"

	space "github.com/space-platform/space"
)

// TestAProjectLeavesRoom: whatever one project holds, through however many owners, another one is served; and nothing is left of who has gone.
func TestAProjectLeavesRoom(t *testing.T) {
	s := newSlots("attaches", "session", maxAttaches, maxAttachesPerProject, maxAttachesPerSession)
	var held []func()
	enter := func(owner, project string) error {
		release, err := s.take()
		if err != nil {
			return err
		}
		leave, err := s.join(owner, project)
		if err != nil {
			release()
			return err
		}
		held = append(held, func() { leave(); release() })
		return nil
	}
	for n := range maxAttachesPerProject {
		if err := enter(fmt.Sprintf("ses_%d", n/maxAttachesPerSession), "prj_1"); err != nil {
			t.Fatalf("the %dth: %v", n+1, err)
		}
	}
	if err := enter("ses_other", "prj_1"); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("one more of the project: %v", err)
	}
	for n := range maxAttachesPerSession {
		if err := enter("ses_of_another", "prj_2"); err != nil {
			t.Fatalf("the %dth of another project: %v", n+1, err)
		}
	}
	if err := enter("ses_of_another", "prj_2"); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("one more of the session: %v", err)
	}
	for _, leave := range held {
		leave()
	}
	if s.all != 0 || len(s.own) != 0 {
		t.Errorf("left: %d, %v", s.all, s.own)
	}
}
