// Package name checks what people call things: a bounded number of visible characters.
package name

import (
	"strings"
	"unicode"
	"unicode/utf8"

	space "github.com/space-platform/space"
)

// Check refuses a name that is empty, longer than that many characters, or has characters that can't be seen or kept.
func Check(field, s string, most int) error {
	n := utf8.RuneCountInString(s)
	switch {
	case s == "":
		return space.FieldErrorf(field, "is required")
	case n > most:
		return space.FieldErrorf(field, "has %d characters: at most %d are allowed", n, most)
	case !utf8.ValidString(s) || strings.IndexFunc(s, unprintable) >= 0:
		return space.FieldErrorf(field, "has characters that can't be seen: letters, digits, punctuation and spaces are allowed")
	case strings.TrimSpace(s) != s:
		return space.FieldErrorf(field, "begins or ends with a space")
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
