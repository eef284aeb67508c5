package image

import (
	"errors"
	"fmt"
)

// Why something was refused.
var (
	ErrEscape    = errors.New("it leads out of the root directory")
	ErrTooLarge  = errors.New("it's over a limit")
	ErrMalformed = errors.New("it's malformed")
	ErrDigest    = errors.New("it isn't what its digest says")
	ErrLogin     = errors.New("the registry refuses the login, or doesn't give the image to it")
	ErrNotFound  = errors.New("the registry has no such image, or wants a login for it")
)

// Error says which entry of which layer was refused.
type Error struct {
	Layer int    // from 1; 0 for an archive without layers
	Entry string // its name in the archive, clipped; "" for the layer itself
	Err   error
}

// Error names layer and entry.
func (e *Error) Error() string {
	s := ""
	if e.Layer > 0 {
		s = fmt.Sprintf("layer %d: ", e.Layer)
	}
	if e.Entry != "" {
		s += fmt.Sprintf("entry %q: ", e.Entry)
	}
	return s + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// maxEntryName bounds how much of an entry's name an error repeats, in bytes.
const maxEntryName = 200

func clip(name string) string {
	if len(name) <= maxEntryName {
		return name
	}
	return name[:maxEntryName] + "…"
}
