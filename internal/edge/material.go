package edge

import (
	"net/http"
	"regexp"
	"strings"

	space "github.com/space-platform/space"
)

// material is what a client shows to be let in. Each opens its own and nothing else; what a token opens is for the control plane to say.
type material uint

// The materials, as a set of those that open an operation.
const (
	attachmentToken material = 1 << iota
	sandboxToken
	uploadToken
	signedURL
)

// maxTokenChars is well above the length of a token.
const maxTokenChars = 256

// subprotocolToken begins the WebSocket subprotocol by which a client that can set no header brings its token.
const subprotocolToken = "space.token."

// tokens are the forms of the materials that are tokens. None of them is a management key, which begins with space_ or e2b_.
var tokens = []struct {
	material material
	re       *regexp.Regexp
	name     string
}{
	{attachmentToken, regexp.MustCompile(`^spaceatt_[A-Za-z0-9_-]+$`), "the session's attachment token (spaceatt_…)"},
	{sandboxToken, regexp.MustCompile(`^spacesbx_[A-Za-z0-9_-]+$`), "a token of the sandbox (spacesbx_…)"},
	{uploadToken, regexp.MustCompile(`^spaceupl_[A-Za-z0-9_-]+$`), "the upload's token (spaceupl_…)"},
}

// readMaterial finds what a request shows, which must be one of the accepted materials. The token has no place in a log or an error. A
// signed URL has no token: its parts are in the query.
func readMaterial(r *http.Request, accepts material) (found material, token string, err error) {
	signed := accepts&signedURL != 0 && hasSignature(r.URL.RawQuery)
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		if offered := offeredToken(r.Header); offered != "" {
			values = []string{"Bearer " + offered}
		}
	}
	switch {
	case signed && len(values) > 0:
		return 0, "", refusal(accepts, "give a token or a signed URL, not both")
	case signed:
		return signedURL, "", nil
	case len(values) != 1:
		return 0, "", refusal(accepts, "it takes one Authorization header: Bearer TOKEN")
	}
	return readToken(values[0], accepts)
}

func readToken(header string, accepts material) (found material, token string, err error) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return 0, "", refusal(accepts, "it takes an Authorization header: Bearer TOKEN")
	}
	if strings.HasPrefix(token, "space_") || strings.HasPrefix(token, "e2b_") {
		return 0, "", refusal(accepts, "a management key opens no data plane")
	}
	for _, t := range tokens {
		if accepts&t.material != 0 && len(token) <= maxTokenChars && t.re.MatchString(token) {
			return t.material, token, nil
		}
	}
	return 0, "", refusal(accepts, "what came isn't a token for this")
}

// refusal says what is accepted instead.
func refusal(accepts material, why string) error {
	var names []string
	for _, t := range tokens {
		if accepts&t.material != 0 {
			names = append(names, t.name)
		}
	}
	if accepts&signedURL != 0 {
		names = append(names, "a signed URL")
	}
	return space.Errorf(space.CodeUnauthenticated, "%s; this needs %s", why, strings.Join(names, ", or "))
}

// offeredToken is the token that a WebSocket client offers as a subprotocol; "" without.
func offeredToken(h http.Header) string {
	for _, value := range h.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(name), subprotocolToken); ok {
				return token
			}
		}
	}
	return ""
}

// hasSignature reports whether a query claims to be a signed URL's.
func hasSignature(raw string) bool {
	for pair := range strings.SplitSeq(raw, "&") {
		if name, _, _ := strings.Cut(pair, "="); name == "signature" {
			return true
		}
	}
	return false
}
