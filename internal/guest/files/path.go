package files

import (
	"path"
	"strings"

	space "github.com/space-platform/space"
)

// Limits of a path, in bytes: the kernel's.
const (
	maxPath = 4095
	maxName = 255
)

// path makes a caller's path absolute. It's clean then: `..` goes back to the name before it, not to where a link has led.
func (c *call) path(field, p string) (string, error) {
	switch {
	case p == "":
		return "", space.FieldErrorf(field, "a path is needed")
	case strings.Contains(p, "\x00"):
		return "", space.FieldErrorf(field, "a path has no zero byte")
	}
	if !path.IsAbs(p) {
		p = path.Join("/", c.user.Home, p)
	}
	p = path.Clean(p)
	if len(p) > maxPath {
		return "", space.FieldErrorf(field, "a path has at most %d bytes", maxPath)
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return "", space.FieldErrorf(field, "a name in a path has at most %d bytes", maxName)
		}
	}
	return p, nil
}
