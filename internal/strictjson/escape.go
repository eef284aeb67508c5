package strictjson

import (
	"strconv"
	"unicode/utf16"
)

// wholeEscapes tells whether each half of a character that is escaped in JSON text, \ud800 to \udfff, has its other half beside it. Backslashes
// are in strings only, so nothing else of the text matters; text that isn't JSON is refused elsewhere.
func wholeEscapes(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		r, ok := unit(b[i:])
		if !ok {
			i++ // a short escape: what it escapes may be a backslash
			continue
		}
		i += escapeLength - 1
		if !utf16.IsSurrogate(r) {
			continue
		}
		low, ok := unit(b[i+1:])
		if !ok || utf16.DecodeRune(r, low) == '\ufffd' {
			return false
		}
		i += escapeLength
	}
	return true
}

// escapeLength is that of an escape like \u00e4.
const escapeLength = 6

// unit reads the UTF-16 unit whose escape b begins with.
func unit(b []byte) (rune, bool) {
	if len(b) < escapeLength || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:escapeLength]), 16, 16)
	return rune(n), err == nil
}
