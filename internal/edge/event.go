package edge

import (
	"encoding/json"
	"fmt"
)

// event is one server-sent event. Its data is JSON on one line, in which []byte becomes base64.
type event struct {
	name string
	id   string // "" for none: the client's cursor stays where it is
	data any
	last bool // nothing follows
}

// comment is a line that a client ignores.
const comment = ": keep-alive\n\n"

// frame is the event on the wire. Name and id are the edge's own words, and JSON has no raw line breaks, so nothing can break out of it.
func (e event) frame() ([]byte, error) {
	data, err := json.Marshal(e.data)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.name, err)
	}
	out := make([]byte, 0, len(data)+64)
	if e.id != "" {
		out = append(append(append(out, "id: "...), e.id...), '\n')
	}
	out = append(append(append(out, "event: "...), e.name...), "\ndata: "...)
	return append(append(out, data...), "\n\n"...), nil
}
