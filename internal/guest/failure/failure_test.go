package failure

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	space "github.com/space-platform/space"
)

func TestErrorsHaveCodes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code space.Code
	}{
		"missing":       {&fs.PathError{Op: "open", Err: syscall.ENOENT}, space.CodeNotFound},
		"full":          {syscall.ENOSPC, space.CodeGuest},
		"unknown":       {syscall.ENOTSUP, space.CodeGuest},
		"coded already": {space.FieldErrorf("mode", "wrong"), space.CodeInvalid},
	} {
		if got := space.CodeOf(Of("read", "/x", c.err)); got != c.code {
			t.Errorf("%s: %s", name, got)
		}
	}
	if Of("read", "/x", nil) != nil {
		t.Error("nothing became an error")
	}
	if err := Of("read", "/x", context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.Open("../x"); space.CodeOf(Of("open", "../x", err)) != space.CodeForbidden {
		t.Errorf("a path that leads out: %v", err)
	}
}

func TestTextIsBoundedAndReadable(t *testing.T) {
	err := Of("read", "/"+strings.Repeat("ö\xff", 4000), syscall.ENOENT)
	if text := err.Error(); len(text) > 600 || !utf8.ValidString(text) || !strings.Contains(text, "no such file") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
