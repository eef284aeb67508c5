package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/space-platform/space/client"
)

// TestAFailedBuildSaysWhatToDo: for want of room that's to make some, else to read the log. That the platform can't be reached is no failure of the build.
func TestAFailedBuildSaysWhatToDo(t *testing.T) {
	for code, want := range map[string]string{"capacity_exhausted": "'space template ls'", "guest_error": "'space template logs web'"} {
		s := explain(failedBuild("web", &client.Error{Code: code, Detail: "no"}))
		if s.Code != code || !strings.Contains(s.Hint, want) || !strings.Contains(s.Hint, "the same command") {
			t.Errorf("%s: %+v", code, s)
		}
	}
	gone := errors.New("connection refused")
	if err := failedBuild("web", gone); !errors.Is(err, gone) || errors.As(err, new(hinted)) {
		t.Errorf("%v", err)
	}
}
