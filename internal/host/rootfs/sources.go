package rootfs

import (
	"bufio"
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// release is the Debian release of the machine and of the base template, by its code name.
const release = "bookworm"

// defaultKeyring signs Debian's archives when a source doesn't say which key does.
const defaultKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// maxSources bounds one file of apt's configuration, in bytes.
const maxSources = 1 << 20

// source is one place that packages come from.
type source struct {
	uri        string
	suite      string
	components []string
	signedBy   string
}

// line returns the source as apt's one-line format has it.
func (s source) line() string {
	keyring := cmp.Or(s.signedBy, defaultKeyring)
	return fmt.Sprintf("deb [signed-by=%s] %s %s %s", keyring, s.uri, s.suite, strings.Join(s.components, " "))
}

// guest returns the source as a guest may have it: without what the machine logs in with, and with Debian's own keyring, which is there.
func (s source) guest() source {
	if u, err := url.Parse(s.uri); err == nil {
		u.User = nil
		s.uri = u.String()
	}
	s.signedBy = defaultKeyring
	return s
}

// debian reports whether a source is one of the machine's release's own archives. Third parties name their suites otherwise, or sign with
// keys of their own.
func (s source) debian() bool {
	suites := []string{release, release + "-updates", release + "-security"}
	keyring := s.signedBy == "" || strings.HasPrefix(filepath.Base(s.signedBy), "debian-archive-")
	return slices.Contains(suites, s.suite) && slices.Contains(s.components, "main") && keyring && !strings.HasPrefix(s.uri, "cdrom:")
}

// machineSources returns the archives of a suite, at the places from which the machine itself has its Debian.
func machineSources(root, suite string) ([]source, error) {
	all, err := ownSources(root)
	if err != nil || suite == release {
		return all, err
	}
	return otherSuite(all, suite), nil
}

// rolling are the suites that have no updates beside them.
var rolling = []string{"sid", "unstable", "experimental", "testing"}

// otherSuite returns the archives of another suite at the same places.
func otherSuite(own []source, suite string) []source {
	var out []source
	for _, s := range own {
		if s.suite != release && slices.Contains(rolling, suite) {
			continue
		}
		s.suite = suite + strings.TrimPrefix(s.suite, release)
		out = append(out, s)
	}
	return out
}

// ownSources returns the Debian archives that the machine itself uses, as found below etc/apt of root.
func ownSources(root string) ([]source, error) {
	dir := filepath.Join(root, "etc/apt")
	lists, err := filepath.Glob(filepath.Join(dir, "sources.list.d/*.list"))
	if err != nil {
		return nil, err
	}
	stanzas, err := filepath.Glob(filepath.Join(dir, "sources.list.d/*.sources"))
	if err != nil {
		return nil, err
	}
	var all []source
	for _, path := range append([]string{filepath.Join(dir, "sources.list")}, lists...) {
		all = append(all, parseList(readSmall(path))...)
	}
	for _, path := range stanzas {
		all = append(all, parseStanzas(readSmall(path))...)
	}
	var out []source
	for _, s := range all {
		if s.uri = resolveMirror(root, s.uri); s.debian() {
			out = append(out, s)
		}
	}
	if !slices.ContainsFunc(out, func(s source) bool { return s.suite == release }) {
		return nil, fmt.Errorf("the machine's apt sources name no Debian archive of %s: add one to /etc/apt/sources.list.d", release)
	}
	return out, nil
}

// readSmall returns a file's text; none for a file that can't be read, as apt itself goes on then.
func readSmall(path string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > maxSources {
		return ""
	}
	return string(b)
}

// parseList reads apt's one-line format.
func parseList(text string) []source {
	var out []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb")
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		rest = strings.TrimSpace(rest)
		options := ""
		if strings.HasPrefix(rest, "[") {
			options, rest, _ = strings.Cut(rest[1:], "]")
		}
		f := strings.Fields(rest)
		if len(f) < 3 {
			continue
		}
		s := source{uri: f[0], suite: f[1], components: f[2:]}
		for _, o := range strings.Fields(options) {
			if path, ok := strings.CutPrefix(o, "signed-by="); ok {
				s.signedBy = path
			}
		}
		out = append(out, s)
	}
	return out
}

// parseStanzas reads apt's deb822 format.
func parseStanzas(text string) []source {
	var out []source
	fields, last := map[string]string{}, ""
	flush := func() {
		out = append(out, expand(fields)...)
		fields, last = map[string]string{}, ""
	}
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); {
		line := scan.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + strings.TrimSpace(line)
		default:
			name, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(name)
			fields[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return out
}

// expand returns a source for each URI and suite of a stanza.
func expand(fields map[string]string) []source {
	if !slices.Contains(strings.Fields(fields["types"]), "deb") || slices.Contains([]string{"no", "false", "0"}, strings.ToLower(fields["enabled"])) {
		return nil
	}
	keyring := fields["signed-by"]
	if strings.Contains(keyring, "\n") { // a key itself, which only Debian's own could replace
		keyring = ""
	}
	var out []source
	for _, uri := range strings.Fields(fields["uris"]) {
		for _, suite := range strings.Fields(fields["suites"]) {
			out = append(out, source{uri: uri, suite: suite, components: strings.Fields(fields["components"]), signedBy: keyring})
		}
	}
	return out
}

// resolveMirror replaces a list of mirrors, which cloud images use, by the first of them.
func resolveMirror(root, uri string) string {
	path, ok := strings.CutPrefix(uri, "mirror+file:")
	if !ok {
		return uri
	}
	path = "/" + strings.TrimLeft(path, "/")
	for line := range strings.Lines(readSmall(filepath.Join(root, path))) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 0 {
			return f[0]
		}
	}
	return uri
}
