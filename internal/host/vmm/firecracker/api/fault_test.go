package api_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
)

// TestWhatARefusalIs has a full disk be one for whoever asks, and a file that Firecracker doesn't find not be one that the host lacks.
func TestWhatARefusalIs(t *testing.T) {
	for message, want := range map[string]error{
		"Create snapshot error: Cannot write memory file: No space left on device (os error 28)": syscall.ENOSPC,
		"Create snapshot error: Disk quota exceeded (os error 122)":                              syscall.EDQUOT,
		"Load snapshot error: No such file or directory (os error 2)":                            nil,
		"no error of the operating system":                                                       nil,
	} {
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"fault_message":"`+message+`"}`)
		}))
		err := c.Save(t.Context(), api.Save{})
		var fault *api.Fault
		if !errors.As(err, &fault) || fault.Message != message {
			t.Fatalf("%q: %v", message, err)
		}
		if want != nil && !errors.Is(err, want) || errors.Is(err, fs.ErrNotExist) || want == nil && fault.Unwrap() != nil {
			t.Errorf("%q is %v, want %v", message, fault.Unwrap(), want)
		}
	}
}
