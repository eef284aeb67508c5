package edge

import (
	"regexp"
	"strconv"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
)

// lastEventID is the header by which a client says what it has.
const lastEventID = "Last-Event-ID"

var offsetRE = regexp.MustCompile(`^[0-9]{1,19}$`)

// attachRequest is what a client that attaches asks for.
type attachRequest struct {
	session string
	token   string
	sleep   bool // of the sandbox, if it sleeps, is left alone
	cursor  cursor
	target  *controlv1.ResolveAttachmentResponse // that the session's creation told; nil: it's asked for
}

// readCursor reads how far the client has got: it's at the beginning without a value of the field.
func readCursor(field string, values []string) (cursor, error) {
	if len(values) == 0 {
		return cursor{}, nil
	}
	if len(values) > 1 || !offsetRE.MatchString(values[0]) {
		return cursor{}, space.FieldErrorf(field, "want the id of the last event that you received: 1 to 19 digits, once")
	}
	n, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil {
		return cursor{}, space.FieldErrorf(field, "want the id of the last event that you received")
	}
	return cursor{offset: n, started: true}, nil
}
