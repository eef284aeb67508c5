package archive

import (
	"path"
	"strings"

	"github.com/space-platform/space/internal/guest/failure"
)

// clean checks a name and makes it simple.
func clean(name string) (string, error) {
	shown := failure.Clip(name)
	switch {
	case name == "":
		return "", refuse("an entry has no name")
	case strings.Contains(name, "\x00"):
		return "", refuse("entry %q: a name has no zero byte", shown)
	case path.IsAbs(name):
		return "", refuse("entry %q: a name must be relative", shown)
	case len(name) > maxPath:
		return "", refuse("entry %q: a name has at most %d bytes", shown, maxPath)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", refuse("entry %q: a name must not have a .. part", shown)
		}
		if len(part) > maxName {
			return "", refuse("entry %q: each part of a name has at most %d bytes", shown, maxName)
		}
	}
	return path.Clean(name), nil
}
