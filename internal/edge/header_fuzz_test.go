package edge

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// FuzzMaterial holds that what opens an operation is a token of a kind that it accepts, in one place and no other, and never a management key.
func FuzzMaterial(f *testing.F) {
	for _, s := range []string{"Bearer spacesbx_a", "bearer  spaceatt_a", "Bearer space_a", "Basic a", "Bearer spacesbx_a b", "spaceupl_a", "Bearer spaceupl_\x00"} {
		f.Add(s, "", "path=/a", uint8(7))
	}
	f.Add("", "space.session.v1, space.token.spaceatt_a", "", uint8(attachmentToken))
	f.Add("", "", "signature=a&signature=b", uint8(signedURL))
	f.Fuzz(func(t *testing.T, authorization, protocol, query string, set uint8) {
		r := &http.Request{Header: http.Header{}, URL: &url.URL{RawQuery: query}}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		if protocol != "" {
			r.Header.Set("Sec-WebSocket-Protocol", protocol)
		}
		accepts := material(set) & (attachmentToken | sandboxToken | uploadToken | signedURL)
		found, token, err := readMaterial(r, accepts)
		switch {
		case err != nil:
			if found != 0 || token != "" {
				t.Fatalf("refused, and found %d %q", found, token)
			}
			for _, secret := range []string{strings.TrimPrefix(authorization, "Bearer "), protocol} {
				if len(secret) > 12 && strings.Contains(err.Error(), secret) {
					t.Fatalf("the error repeats what was shown: %v", err)
				}
			}
		case found&accepts == 0 || found&(found-1) != 0:
			t.Fatalf("%d opens what takes %d", found, accepts)
		case found == signedURL:
			if token != "" || authorization != "" || offeredToken(r.Header) != "" {
				t.Fatalf("a signed URL beside %q, %q", authorization, protocol)
			}
		case len(token) > maxTokenChars || strings.HasPrefix(token, "space_") || strings.HasPrefix(token, "e2b_") || !strings.Contains(authorization+protocol, token):
			t.Fatalf("%q was found in %q, %q", token, authorization, protocol)
		}
	})
}

// FuzzConditions holds that a file which a client names by its tag is the one it has, whatever else it says, and that no other one is.
func FuzzConditions(f *testing.F) {
	for _, s := range []string{"*", `W/"x"`, ",,,", `"1"`, "Mon, 30 Nov 2026 10:00:00 GMT", ""} {
		f.Add(s, s, int64(1), uint64(2))
	}
	f.Fuzz(func(t *testing.T, list, since string, nanos int64, size uint64) {
		at := time.Unix(0, nanos)
		e := &sandboxv1.Entry{Modified: timestamppb.New(at), Size: size}
		other := &sandboxv1.Entry{Modified: timestamppb.New(at), Size: size + 1}
		tag := entityTag(e)
		if !unchanged(http.Header{"If-None-Match": {list, tag}}, e) || !unchanged(http.Header{"If-None-Match": {"W/" + tag + "," + list}}, e) {
			t.Fatalf("%s isn't found beside %q", tag, list)
		}
		if !strings.Contains(list, "*") && unchanged(http.Header{"If-None-Match": {tag, list}}, other) && !strings.Contains(list, entityTag(other)) {
			t.Fatalf("%s is taken for %s, or %q", entityTag(other), tag, list)
		}
		if !sameAs(http.Header{"If-Range": {tag}}, e) || sameAs(http.Header{"If-Range": {tag}}, other) {
			t.Fatalf("If-Range: %s", tag)
		}
		h := http.Header{"If-Modified-Since": {since}, "If-Range": {since}}
		if when, err := http.ParseTime(since); unchanged(h, e) && (err != nil || at.Truncate(time.Second).After(when)) {
			t.Fatalf("a file of %s is taken for unchanged since %q", at, since)
		}
		sameAs(h, e)
	})
}
