package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// TestProgressCountsBytes: after a second people see how far a copy is, and before that nothing.
func TestProgressCountsBytes(t *testing.T) {
	var shown bytes.Buffer
	p := &progress{to: &shown, text: "copying"}
	if _, err := io.Copy(io.Discard, p.count(strings.NewReader(strings.Repeat("x", 20<<20)), 40<<20)); err != nil {
		t.Fatal(err)
	}
	p.line(progressAfter / 2)
	p.line(3 * time.Second)
	if want := "\r\x1b[Kcopying … 20 MiB of 40 MiB, 3 s"; shown.String() != want {
		t.Errorf("%q, want %q", shown.String(), want)
	}
}
