package image

import (
	"fmt"
	"strings"
)

// split returns the parts of an entry's name, none for the root itself. A leading slash means nothing, as in any unpacker.
func split(name string) ([]string, error) {
	if len(name) > maxName {
		return nil, tooMany("bytes of a name", int64(len(name)), maxName)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return nil, fmt.Errorf("%w: its name has a ..", ErrEscape)
		case len(part) > maxPart:
			return nil, tooMany("bytes of a part of a name", int64(len(part)), maxPart)
		case strings.Contains(part, "\x00"):
			return nil, fmt.Errorf("%w: its name has a zero byte", ErrMalformed)
		}
		parts = append(parts, part)
	}
	if len(parts) > maxDepth {
		return nil, tooMany("directories deep", int64(len(parts)), maxDepth)
	}
	return parts, nil
}

// checkTarget refuses a symbolic link that climbs above the root. depth is how many directories it's below the root.
func checkTarget(target string, depth int) error {
	switch {
	case target == "":
		return fmt.Errorf("%w: a symbolic link to nothing", ErrMalformed)
	case len(target) >= maxName:
		return tooMany("bytes of a link", int64(len(target)), maxName-1)
	case strings.Contains(target, "\x00"):
		return fmt.Errorf("%w: a link with a zero byte", ErrMalformed)
	}
	if strings.HasPrefix(target, "/") {
		depth = 0
	}
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return fmt.Errorf("%w: a symbolic link to %q", ErrEscape, clip(target))
			}
		default:
			depth++
		}
	}
	return nil
}
