// Package temporary names the files in which an upload arrives, beside the file that it will replace. They aren't shown to anyone, and a watch
// tells the end of an upload as what it is: a file was written.
package temporary

import (
	"crypto/rand"
	"strings"
)

const (
	prefix   = ".space-upload-"
	creating = "new-"
	changing = "old-"
)

// Name is a new name, for the upload of a file that replaces another or doesn't.
func Name(replaces bool) string {
	if replaces {
		return prefix + changing + rand.Text()
	}
	return prefix + creating + rand.Text()
}

// Parse reports whether a name is one of these, and whether a file is replaced.
func Parse(name string) (replaces, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	return strings.HasPrefix(rest, changing), ok
}
