package archive

import (
	"bytes"
	"io"
	"os/exec"
	"testing"
)

// gnuTar runs tar.
func gnuTar(t testing.TB, in io.Reader, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("tar", args...)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tar %q: %v: %s", args, err, errs.Bytes())
	}
	return out
}

// gnuTarOf packs what fill has put into a directory.
func gnuTarOf(t testing.TB, fill func(dir string), args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	fill(dir)
	return gnuTar(t, nil, append(args, "-c", "-C", dir, ".")...)
}
