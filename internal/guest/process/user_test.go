package process

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// image makes an /etc with these files.
func image(t testing.TB, passwd, group string) accounts {
	dir := t.TempDir()
	for name, content := range map[string]string{"passwd": passwd, "group": group} {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return accounts{dir}
}

const (
	passwd = "root:x:0:0:root:/root:/bin/bash\nbroken\nbad:x:nan:0::/:\nuser:x:1000:1001:,,,:/home/user:/bin/zsh\nplain:x:1002:1002:::\n"
	group  = "root:x:0:\nsudo:x:27:other,user\nuser:x:1001:user\ndocker:x:999:user\n"
)

func TestFindUser(t *testing.T) {
	full, empty := image(t, passwd, group), image(t, "", "")
	user := account{name: "user", uid: 1000, gid: 1001, groups: []uint32{1001, 27, 999}, home: "/home/user", shell: "/bin/zsh"}
	root := account{name: "root", groups: []uint32{0}, home: "/root", shell: "/bin/bash"}
	for name, c := range map[string]struct {
		in   accounts
		who  string
		want account
		err  string
	}{
		"by name":              {in: full, who: "user", want: user},
		"by number":            {in: full, who: "1000", want: user},
		"the default":          {in: full, who: "", want: user},
		"root":                 {in: full, who: "root", want: root},
		"0":                    {in: full, who: "0", want: root},
		"empty fields":         {in: full, who: "plain", want: account{name: "plain", uid: 1002, gid: 1002, groups: []uint32{1002}, home: "/", shell: "/bin/sh"}},
		"an unknown number":    {in: full, who: "4242", want: account{name: "4242", uid: 4242, home: "/", shell: "/bin/sh"}},
		"an unknown name":      {in: full, who: "nobody", err: "not in /etc/passwd"},
		"a broken entry":       {in: full, who: "bad", err: "not in /etc/passwd"},
		"a negative number":    {in: full, who: "-1", err: "not in /etc/passwd"},
		"the invalid number":   {in: full, who: "4294967295", err: "not in /etc/passwd"},
		"no files, default":    {in: empty, who: "", want: account{name: "root", home: "/root", shell: "/bin/sh"}},
		"no files, root":       {in: empty, who: "root", want: account{name: "root", home: "/root", shell: "/bin/sh"}},
		"no files, a number":   {in: empty, who: "5", want: account{name: "5", uid: 5, home: "/", shell: "/bin/sh"}},
		"no files, a name":     {in: empty, who: "user", err: "not in /etc/passwd"},
		"a name of many bytes": {in: empty, who: strings.Repeat("x", 1000), err: "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.in.find(c.who)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestPasswdThatIsNoFile: a named pipe in its place must not hang the agent.
func TestPasswdThatIsNoFile(t *testing.T) {
	a := image(t, "", "")
	if err := syscall.Mkfifo(filepath.Join(a.etc, "passwd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if u, err := a.find("root"); err != nil || u.uid != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

func FuzzFindUser(f *testing.F) {
	f.Add(passwd, group, "user")
	f.Add("", "", "1")
	f.Add(":::::::\n:x:0:0:::", "::::", "")
	f.Fuzz(func(t *testing.T, passwd, group, who string) {
		u, err := image(t, passwd, group).find(who)
		if err == nil && (u.name == "" || u.home == "" || u.shell == "" || len(u.groups) > maxGroups) {
			t.Fatalf("%q gave %+v", who, u)
		}
	})
}
