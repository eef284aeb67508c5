package instance_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/instance/instancetest"
)

// own is an instance with a data directory.
func own(t *testing.T) instance.Instance {
	t.Helper()
	i := instancetest.Own(t)
	if err := os.MkdirAll(i.DataDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.RemoveAll(i.DataDir())
		os.Remove(instance.Root) // stays while somebody else has something there
	})
	return i
}

// TestDatabaseIsASecret writes the address of a database down and reads the file as each role's user.
func TestDatabaseIsASecret(t *testing.T) {
	i := own(t)
	if i.ExternalDatabase() {
		t.Fatal("an instance begins with a database of somebody else's")
	}
	const url = "postgres://space:s3cret\"'\\@db.example/space?sslmode=verify-full"
	for _, want := range []bool{true, false} { // the second time it's no other
		if changed, err := instance.SetDatabase(i, url); err != nil || changed != want {
			t.Fatalf("changed %v, %v, want %v", changed, err, want)
		}
	}
	if c, err := instance.LoadConfig(i); err != nil || c.DatabaseURL != url || !i.ExternalDatabase() {
		t.Errorf("%+v, %v", c, err)
	}
	for _, r := range instance.Users() {
		cat := exec.Command("cat", i.DatabaseFile())
		cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(i.UID(r)), Gid: uint32(i.UID(r)), Groups: []uint32{uint32(i.GID())}}}
		out, err := cat.Output()
		if may := r == instance.API; (err == nil) != may || strings.Contains(string(out), "s3cret") != may {
			t.Errorf("%s reads %q, %v", r, out, err)
		}
	}
	st, err := os.Stat(i.DatabaseFile())
	if err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

// TestSecretsDontGoAstray has the address in the file that all roles read, and a file that isn't TOML: the errors don't repeat it.
func TestSecretsDontGoAstray(t *testing.T) {
	i := own(t)
	for file, content := range map[string]string{
		i.ConfigFile():   "database_url = \"postgres://space:s3cret@db/space\"\n",
		i.DatabaseFile(): "database_url = postgres://space:s3cret@db/space\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := instance.LoadConfig(i); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", file, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
