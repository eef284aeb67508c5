package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable shows what would move a terminal's cursor, change its colours or turn its text around as Go writes it: names, commands and messages may come
// from a guest, or from another member of the project. Line breaks and tabs go too, except those that are kept.
func printable(s, keep string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if plain(r) && (r != utf8.RuneError || n > 1) {
			b.WriteRune(r)
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
