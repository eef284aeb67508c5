package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// entry is what another program makes of an entry of the archive.
type entry struct {
	Mode  uint32
	Major uint32
	Minor uint32
	Text  string
}

func TestTheArchiveIsWhatCpioUnderstands(t *testing.T) {
	var b bytes.Buffer
	a := &archive{w: &b}
	a.dir("dev", 0o755)
	a.device("dev/console", 0o600, 5, 1)
	a.dir("modules", 0o755)
	a.file("init", 0o755, []byte("#!"))
	a.file("modules/order", 0o644, []byte("four"))
	a.file("empty", 0o644, nil)
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "busybox", "cpio", "-i")
	c.Stdin, c.Dir = &b, dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("busybox cpio: %v: %s", err, out)
	}
	want := map[string]entry{
		"dev":           {Mode: unix.S_IFDIR | 0o755},
		"dev/console":   {Mode: unix.S_IFCHR | 0o600, Major: 5, Minor: 1},
		"modules":       {Mode: unix.S_IFDIR | 0o755},
		"init":          {Mode: unix.S_IFREG | 0o755, Text: "#!"},
		"modules/order": {Mode: unix.S_IFREG | 0o644, Text: "four"},
		"empty":         {Mode: unix.S_IFREG | 0o644},
	}
	got := map[string]entry{}
	for name := range want {
		got[name] = look(t, filepath.Join(dir, name))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func look(t *testing.T, path string) entry {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	e := entry{Mode: st.Mode, Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		e.Text = string(b)
	}
	return e
}
