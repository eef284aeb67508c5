//go:build e2e

package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/pgtest"
)

// TestExistingDatabase runs another platform on a PostgreSQL that is somebody else's: no private one runs, a second start finds its way
// without the address, and the password is in one file only.
func TestExistingDatabase(t *testing.T) {
	const password = "canary-3c61b0"
	url, _ := pgtest.Network(t, password)
	name := platform.instance.Name + "db"
	t.Cleanup(func() {
		if err := show("purge", "--yes", "--instance", name); err != nil {
			t.Error(err)
		}
	})
	up := exec.Command(platform.binary, "up", "--no-install", "--instance", name, "--database-url", url)
	if out, err := up.CombinedOutput(); err != nil || bytes.Contains(out, []byte(password)) {
		t.Fatalf("up: %v\n%s", err, out)
	}
	i, err := instance.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	if found := places(t, i, map[string]string{"password": password}); len(found) != 1 || found[0] != i.DatabaseFile()+" has the password" {
		t.Error(found)
	}
	for _, args := range [][]string{{"up", "--no-install"}, {"status"}, {"sandbox", "ls"}, {"down"}, {"up", "--no-install"}, {"sandbox", "ls"}} {
		out, err := exec.Command(platform.binary, append(args, "--instance", name)...).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte(password)) || bytes.Contains(out, []byte("postgres  ")) {
			t.Errorf("space %v: %v\n%s", args, err, out)
		}
	}
	if out, err := exec.Command(platform.binary, "up", "--no-install", "--instance", platform.instance.Name, "--database-url", url).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("conflict")) {
		t.Errorf("a platform with records of its own took another database: %v\n%s", err, out)
	}
}

// places are the files of an instance, the command lines and the environments of all processes that contain one of some words, each with what
// the word is. The volume isn't looked at: it's the guests'.
func places(t *testing.T, i instance.Instance, words map[string]string) (found []string) {
	t.Helper()
	look := func(path string) {
		b, err := os.ReadFile(path) // a process or a file may have gone
		for what, word := range words {
			if err == nil && bytes.Contains(b, []byte(word)) {
				found = append(found, path+" has the "+what)
			}
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		look(p + "/cmdline")
		look(p + "/environ")
	}
	for _, dir := range []string{i.DataDir(), i.RunDir(), i.LogDir()} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || strings.HasPrefix(path, i.RoleDir(instance.Host)):
				return fs.SkipDir // the volume
			case d.Type().IsRegular():
				look(path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
