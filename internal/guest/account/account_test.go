package account

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// image makes an /etc with these files.
func image(t testing.TB, passwd, group string) Files {
	dir := t.TempDir()
	for name, content := range map[string]string{"passwd": passwd, "group": group} {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Files{dir}
}

const (
	passwd = "root:x:0:0:root:/root:/bin/bash\nbroken\nbad:x:nan:0::/:\nuser:x:1000:1001:,,,:/home/user:/bin/zsh\nplain:x:1002:1002:::\n"
	group  = "root:x:0:\nsudo:x:27:other,user\nuser:x:1001:user\ndocker:x:999:user\n"
)

func TestFindUser(t *testing.T) {
	full, empty := image(t, passwd, group), image(t, "", "")
	user := Account{Name: "user", UID: 1000, GID: 1001, Groups: []uint32{1001, 27, 999}, Home: "/home/user", Shell: "/bin/zsh"}
	root := Account{Name: "root", Groups: []uint32{0}, Home: "/root", Shell: "/bin/bash"}
	for name, c := range map[string]struct {
		in   Files
		who  string
		want Account
		err  string
	}{
		"by name":              {in: full, who: "user", want: user},
		"by number":            {in: full, who: "1000", want: user},
		"the default":          {in: full, who: "", want: user},
		"root":                 {in: full, who: "root", want: root},
		"0":                    {in: full, who: "0", want: root},
		"empty fields":         {in: full, who: "plain", want: Account{Name: "plain", UID: 1002, GID: 1002, Groups: []uint32{1002}, Home: "/", Shell: "/bin/sh"}},
		"with a group":         {in: full, who: "user:docker", want: Account{Name: "user", UID: 1000, GID: 999, Groups: []uint32{999}, Home: "/home/user", Shell: "/bin/zsh"}},
		"with a number":        {in: full, who: "0:5", want: Account{Name: "root", GID: 5, Groups: []uint32{5}, Home: "/root", Shell: "/bin/bash"}},
		"two numbers":          {in: empty, who: "7:8", want: Account{Name: "7", UID: 7, GID: 8, Groups: []uint32{8}, Home: "/", Shell: "/bin/sh"}},
		"the default's group":  {in: full, who: ":docker", want: Account{Name: "user", UID: 1000, GID: 999, Groups: []uint32{999}, Home: "/home/user", Shell: "/bin/zsh"}},
		"an unknown group":     {in: full, who: "user:nobody", err: "group"},
		"no group":             {in: full, who: "user:", err: "group"},
		"an unknown number":    {in: full, who: "4242", want: Account{Name: "4242", UID: 4242, GID: 4242, Groups: []uint32{4242}, Home: "/", Shell: "/bin/sh"}},
		"an unknown name":      {in: full, who: "nobody", err: "not in /etc/passwd"},
		"a broken entry":       {in: full, who: "bad", err: "not in /etc/passwd"},
		"a negative number":    {in: full, who: "-1", err: "not in /etc/passwd"},
		"the invalid number":   {in: full, who: "4294967295", err: "not in /etc/passwd"},
		"no files, default":    {in: empty, who: "", want: Account{Name: "root", Home: "/root", Shell: "/bin/sh"}},
		"no files, root":       {in: empty, who: "root", want: Account{Name: "root", Home: "/root", Shell: "/bin/sh"}},
		"no files, a number":   {in: empty, who: "5", want: Account{Name: "5", UID: 5, GID: 5, Groups: []uint32{5}, Home: "/", Shell: "/bin/sh"}},
		"no files, a name":     {in: empty, who: "user", err: "not in /etc/passwd"},
		"a name of many bytes": {in: empty, who: strings.Repeat("x", 1000), err: "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.in.Find(c.who)
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
	if err := syscall.Mkfifo(filepath.Join(a.Etc, "passwd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if u, err := a.Find("root"); err != nil || u.UID != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

func FuzzFindUser(f *testing.F) {
	f.Add(passwd, group, "user")
	f.Add("", "", "1")
	f.Add(":::::::\n:x:0:0:::", "::::", "")
	f.Fuzz(func(t *testing.T, passwd, group, who string) {
		u, err := image(t, passwd, group).Find(who)
		if err == nil && (u.Name == "" || u.Home == "" || u.Shell == "" || len(u.Groups) > maxGroups) {
			t.Fatalf("%q gave %+v", who, u)
		}
	})
}

func TestNumbersAndNames(t *testing.T) {
	f := image(t, passwd, group)
	n := f.Names()
	if n.Users[1000] != "user" || n.Groups[999] != "docker" || n.Users[7] != "" {
		t.Errorf("%+v", n)
	}
	for name, c := range map[string]struct {
		got  func(string) (uint32, error)
		who  string
		want uint32
		ok   bool
	}{
		"a user":              {f.UserID, "user", 1000, true},
		"a group":             {f.GroupID, "docker", 999, true},
		"a number":            {f.UserID, "77", 77, true},
		"root without a file": {image(t, "", "").GroupID, "root", 0, true},
		"nobody":              {f.UserID, "nobody", 0, false},
		"no name":             {f.UserID, "", 0, false},
		"leave it":            {f.UserID, "4294967295", 0, false},
		"negative":            {f.GroupID, "-1", 0, false},
	} {
		if got, err := c.got(c.who); got != c.want || (err == nil) != c.ok {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
