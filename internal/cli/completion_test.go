package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestCompletionGivesUp: a shell isn't kept waiting by a platform that is silent.
func TestCompletionGivesUp(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	n := connectionFlags(&app{getenv: func(name string) string {
		return map[string]string{"SPACE_URL": silent.URL, "SPACE_API_KEY": "x", "HOME": t.TempDir()}[name]
	}}, &cobra.Command{})
	began := time.Now()
	if got := n.candidates(t.Context(), sandboxes(), nil, ""); len(got) > 0 {
		t.Errorf("it offers %q", got)
	}
	if took := time.Since(began); took > 2*completeTimeout {
		t.Errorf("it took %s", took)
	}
}
