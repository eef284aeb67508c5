package edge

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// span is the part of a file that a request asks for.
type span struct {
	whole  bool   // no range, or one that isn't followed
	suffix bool   // the last `to` bytes
	from   uint64 // the first byte
	to     uint64 // the byte after the last one; beyond the file for an open end
}

// maxOffset is beyond any file, and a number that all on the way can have.
const maxOffset = 1<<63 - 1

// maxRange is the length of a Range header, in bytes.
const maxRange = 256

// readRange reads a Range header. What a server needn't follow it doesn't: other units, several ranges and nonsense mean the whole file. One that is too long is
// refused.
func readRange(values []string) (span, error) {
	for _, v := range values {
		if len(v) > maxRange {
			return span{}, space.FieldErrorf("Range", "has %d bytes: at most %d are allowed", len(v), maxRange)
		}
	}
	return parseRange(values), nil
}

func parseRange(values []string) span {
	whole := span{whole: true}
	if len(values) != 1 {
		return whole
	}
	ranges, ok := strings.CutPrefix(values[0], "bytes=")
	first, last, dash := strings.Cut(strings.TrimSpace(ranges), "-")
	if !ok || !dash {
		return whole
	}
	if first == "" {
		n, ok := offset(last)
		if !ok {
			return whole
		}
		return span{suffix: true, to: n}
	}
	from, ok := offset(first)
	if !ok {
		return whole
	}
	if last == "" {
		return span{from: from, to: maxOffset}
	}
	to, ok := offset(last)
	if !ok || to < from {
		return whole
	}
	return span{from: from, to: min(to, maxOffset-1) + 1}
}

// offset reads digits; a number too large for any file counts as the largest.
func offset(s string) (uint64, bool) {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return maxOffset, true
	}
	return min(n, maxOffset), true
}

// of is the part in a file of a size: from ≤ to ≤ size. The error is for a range in which the file has no bytes.
func (s span) of(size uint64) (from, to uint64, err error) {
	switch {
	case s.whole:
		return 0, size, nil
	case s.suffix:
		s.from, s.to = size-min(s.to, size), size
	}
	if s.from >= size {
		return 0, 0, noRange(size)
	}
	return s.from, min(s.to, size), nil
}

func noRange(size uint64) error {
	return &space.Error{Code: space.CodeRange, Field: "Range", Message: fmt.Sprintf("the file has %d bytes", size)}
}

// read is the action that brings the part of a file, which may turn out shorter.
func (s span) read(path string) *sandboxv1.Read {
	if s.whole {
		return &sandboxv1.Read{Path: path, ToEnd: true}
	}
	return &sandboxv1.Read{Path: path, Offset: s.from, Length: s.to - s.from}
}

// entityTag names the contents of a file as far as its time and size do.
func entityTag(e *sandboxv1.Entry) string {
	return fmt.Sprintf(`"%x-%x"`, e.GetModified().AsTime().UnixNano(), e.GetSize())
}

// unchanged reports whether a client has the file already: If-None-Match says so, or else If-Modified-Since.
func unchanged(h http.Header, e *sandboxv1.Entry) bool {
	if values := h.Values("If-None-Match"); len(values) > 0 {
		return matches(strings.Join(values, ","), entityTag(e))
	}
	since, err := http.ParseTime(h.Get("If-Modified-Since"))
	return err == nil && !e.GetModified().AsTime().Truncate(time.Second).After(since)
}

// matches reports whether a list of entity tags has one.
func matches(list, tag string) bool {
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}

// sameAs reports whether the file is still the one that If-Range speaks of, so that the range may be followed.
func sameAs(h http.Header, e *sandboxv1.Entry) bool {
	value := h.Get("If-Range")
	if value == "" || value == entityTag(e) {
		return true
	}
	at, err := http.ParseTime(value)
	return err == nil && e.GetModified().AsTime().Truncate(time.Second).Equal(at)
}
