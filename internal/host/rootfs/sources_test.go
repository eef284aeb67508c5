package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const deb822 = `# comment
Types: deb deb-src
URIs: mirror+file:///etc/apt/mirrors/debian.list
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://user:secret@deb.example.net/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: https://vendor.example.net/node
Suites: nodistro
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 abc

Types: deb
Enabled: no
URIs: http://off.example.net/debian
Suites: bookworm
Components: main
`

const oneLine = `# deb http://comment.example.net/debian bookworm main
deb [arch=amd64 signed-by=/etc/apt/keyrings/vendor.gpg] https://vendor.example.net/debian bookworm main
deb cdrom:[Debian 12] bookworm main
deb-src http://deb.example.net/debian bookworm main
deb http://old.example.net/debian	bookworm main non-free # why
debug nothing at all
`

func TestOnlyDebiansOwnArchivesAreTaken(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"etc/apt/sources.list":                    oneLine,
		"etc/apt/sources.list.d/debian.sources":   deb822,
		"etc/apt/sources.list.d/vendor.list.save": "deb http://saved.example.net/debian bookworm main\n",
		"etc/apt/mirrors/debian.list":             "# the nearest\nhttp://mirror.example.net/debian priority:1\nhttp://far.example.net/debian\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := ownSources(root)
	if err != nil {
		t.Fatal(err)
	}
	var got, guest []string
	for _, s := range sources {
		got, guest = append(got, s.line()), append(guest, s.guest().line())
	}
	const signed = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
	want := []string{
		signed + "http://old.example.net/debian bookworm main non-free",
		signed + "http://mirror.example.net/debian bookworm main contrib",
		signed + "http://mirror.example.net/debian bookworm-updates main contrib",
		signed + "http://user:secret@deb.example.net/debian-security bookworm-security main",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	want[3] = signed + "http://deb.example.net/debian-security bookworm-security main"
	if diff := cmp.Diff(want, guest); diff != "" {
		t.Errorf("what the guest gets: %s", diff)
	}
}

func TestMachineWithoutDebianIsToldSo(t *testing.T) {
	if _, err := ownSources(t.TempDir()); err == nil {
		t.Fatal("no error without sources")
	}
}

func FuzzSources(f *testing.F) {
	f.Add(deb822)
	f.Add(oneLine)
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range append(parseList(text), parseStanzas(text)...) {
			if s.uri == "" || s.suite == "" {
				t.Fatalf("half a source: %+v", s)
			}
			s.guest().line()
		}
	})
}
