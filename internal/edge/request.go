package edge

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	space "github.com/space-platform/space"
)

// tokenPrefix begins an attachment token, keyPrefix a management key, which opens nothing here.
const (
	tokenPrefix = "spaceatt_"
	keyPrefix   = "space_"
)

// maxTokenChars is well above the length of a token.
const maxTokenChars = 256

// lastEventID is the header by which a client says what it has.
const lastEventID = "Last-Event-ID"

var (
	tokenRE  = regexp.MustCompile(`^spaceatt_[A-Za-z0-9_-]+$`)
	offsetRE = regexp.MustCompile(`^[0-9]{1,19}$`)
)

// attachRequest is what a client asks for. The token is for the control plane's eyes only: it has no place in a log or an error.
type attachRequest struct {
	session string
	token   string
	cursor  cursor
}

// readAttach reads a request, or says what is wrong with it. Who shows no token learns nothing else.
func readAttach(r *http.Request) (attachRequest, error) {
	token, err := readToken(r.Header.Values("Authorization"))
	if err != nil {
		return attachRequest{}, err
	}
	session := r.PathValue("session")
	if space.CheckID(space.PrefixSession, session) != nil {
		return attachRequest{}, space.Errorf(space.CodeNotFound, "no such session")
	}
	if r.ContentLength != 0 {
		return attachRequest{}, space.FieldErrorf("body", "attach takes no body")
	}
	if r.URL.RawQuery != "" {
		return attachRequest{}, space.FieldErrorf("query", "attach takes no query parameters; where to go on from is in the header %s", lastEventID)
	}
	c, err := readCursor(r.Header.Values(lastEventID))
	if err != nil {
		return attachRequest{}, err
	}
	return attachRequest{session: session, token: token, cursor: c}, nil
}

func readToken(values []string) (string, error) {
	refuse := func(why string) (string, error) { return "", space.Errorf(space.CodeUnauthenticated, "%s", why) }
	if len(values) != 1 {
		return refuse("attach needs the session's attachment token in one header: Authorization: Bearer spaceatt_…")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return refuse("attach needs the session's attachment token: Authorization: Bearer spaceatt_…")
	case strings.HasPrefix(token, keyPrefix):
		return refuse("a management key opens no data plane; use the attachment token that came with the session")
	case len(token) > maxTokenChars || !tokenRE.MatchString(token):
		return refuse("the attachment token isn't valid")
	}
	return token, nil
}

// readCursor reads how far the client has got: it's at the beginning without a header.
func readCursor(values []string) (cursor, error) {
	if len(values) == 0 {
		return cursor{}, nil
	}
	if len(values) > 1 || !offsetRE.MatchString(values[0]) {
		return cursor{}, space.FieldErrorf(lastEventID, "want the id of the last event that you received: 1 to 19 digits, once")
	}
	n, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil {
		return cursor{}, space.FieldErrorf(lastEventID, "want the id of the last event that you received")
	}
	return cursor{offset: n, started: true}, nil
}
