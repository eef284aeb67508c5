package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/space-platform/space/internal/guest/account"
)

// programs makes directories with files of these modes, and returns the root.
func programs(t *testing.T, files map[string]os.FileMode) string {
	root := t.TempDir()
	for name, mode := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLookup(t *testing.T) {
	root := programs(t, map[string]os.FileMode{"a/tool": 0o644, "b/tool": 0o755, "a/plain": 0o644, "b/other": 0o755, "c/tool": 0o755, "a/dir/x": 0o644})
	path := root + "/missing:" + root + "/a:" + root + "/b"
	for name, c := range map[string]struct {
		prog, dir, path string
		want            string
		code            int
	}{
		"the first that is executable": {prog: "tool", path: path, want: root + "/b/tool"},
		"only one that is not":         {prog: "plain", path: path, code: 126},
		"a directory":                  {prog: "dir", path: path, code: 126},
		"none":                         {prog: "nothing", path: path, code: 127},
		"relative to the directory":    {prog: "./tool", dir: root + "/c", path: path, want: root + "/c/tool"},
		"below it":                     {prog: "c/tool", dir: root, path: path, want: root + "/c/tool"},
		"relative PATH":                {prog: "tool", dir: root, path: "c", want: root + "/c/tool"},
		"empty PATH entry":             {prog: "tool", dir: root + "/c", path: "", want: root + "/c/tool"},
		"absolute":                     {prog: root + "/b/other", want: root + "/b/other"},
		"through a file":               {prog: root + "/b/other/x", code: 127},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lookup(c.prog, c.dir, c.path)
			var start *startError
			if c.code != 0 {
				if !errors.As(err, &start) || start.code != c.code {
					t.Fatalf("error %v, want code %d", err, c.code)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestEnvironmentIsTheUsersBelowTheSpecs(t *testing.T) {
	u := account.Account{Name: "user", Home: "/home/user", Shell: "/bin/zsh"}
	got, err := Spec{Env: map[string]string{"A": "1", "PATH": "/x", "EMPTY": ""}}.environment(u)
	want := []string{"A=1", "EMPTY=", "HOME=/home/user", "LANG=C.UTF-8", "LOGNAME=user", "PATH=/x", "SHELL=/bin/zsh", "USER=user"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, env := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "x\x00"}} {
		if _, err := (Spec{Env: env}).environment(u); err == nil {
			t.Errorf("%q was taken", env)
		}
	}
}

func TestDirectory(t *testing.T) {
	home := t.TempDir()
	for name, c := range map[string]struct {
		cwd, home, want string
		wrong           bool
	}{
		"given":         {cwd: "/usr", home: home, want: "/usr"},
		"the home":      {home: home, want: home},
		"no home":       {home: "/no/such", want: "/"},
		"relative home": {home: "tmp", want: "/"},
		"missing":       {cwd: "/no/such", home: home, wrong: true},
		"a file":        {cwd: "/etc/passwd", home: home, wrong: true},
		"relative":      {cwd: "usr", home: home, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Spec{Cwd: c.cwd}.directory(account.Account{Home: c.home})
			if (err != nil) != c.wrong || got != c.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
