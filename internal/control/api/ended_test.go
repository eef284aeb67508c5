package api_test

import (
	"encoding/json"
	"net/url"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/access"
)

// TestFindEnded asks for each material, in each way in which it can end or not, whether what it has opened is over.
func TestFindEnded(t *testing.T) {
	r := newRig(t)
	e, box := r.serveEdge(t, os.Geteuid()), r.sandbox(t)
	at := "/v1/sandboxes/" + box.Id
	attachment := func(token string) string {
		t.Helper()
		a, err := ask(t, e.data.CreateSession, &controlv1.CreateSessionRequest{Sandbox: box.Id, Token: token, Body: []byte(`{"shell":"id"}`)})
		if err != nil {
			t.Fatal(err)
		}
		var out gen.SessionCreated
		if err := json.Unmarshal(a.Body, &out); err != nil {
			t.Fatal(err)
		}
		return out.Attachment.Token
	}
	signed := func(sandbox string) *controlv1.Material {
		t.Helper()
		u, err := url.Parse(decode[gen.FileURL](t, r.do(t, "POST", "/v1/sandboxes/"+sandbox+"/file-urls", `{"path":"/f","operation":"read"}`).want(t, 201)).Url)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		expires, _ := strconv.ParseInt(q.Get("expires"), 10, 64)
		return &controlv1.Material{Sandbox: sandbox, Signed: &controlv1.SignedURL{Path: "/f", Operation: "read", ExpiresUnix: expires, Signature: q.Get("signature")}}
	}
	token := func(secret string) *controlv1.Material { return &controlv1.Material{Token: secret} }
	good, revoked, expired, other := r.token(t, box.Id), r.token(t, box.Id), r.token(t, box.Id), r.sandbox(t)
	ofKey := decode[gen.SessionCreated](t, r.do(t, "POST", at+"/sessions", `{"shell":"id"}`).want(t, 201)).Attachment.Token
	names := []string{"good", "revoked", "expired", "of a key, long expired", "of good, long expired", "of revoked", "of expired", "unknown", "signed", "signed, revoked", "forged"}
	materials := []*controlv1.Material{token(good.Secret), token(revoked.Secret), token(expired.Secret), token(ofKey), token(attachment(good.Secret)),
		token(attachment(revoked.Secret)), token(attachment(expired.Secret)), token("spacesbx_unknown"), signed(box.Id), signed(other.Id), signed(box.Id)}
	materials[10].Signed.Path = "/g"
	r.do(t, "DELETE", at+"/tokens/"+revoked.Token.Id, nil).want(t, 204)
	r.do(t, "DELETE", "/v1/sandboxes/"+other.Id+"/file-urls", nil).want(t, 204)
	for _, statement := range []string{
		"UPDATE sandbox_tokens SET expires_at = now() - interval '1 hour' WHERE id = '" + expired.Token.Id + "'",
		"UPDATE attachments SET expires_at = now() - interval '26 hours'",
	} {
		if _, err := r.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.store.Prune(t.Context()); err != nil { // a stream lasts longer than the record of what has opened it
		t.Fatal(err)
	}
	look := func() map[string]string {
		t.Helper()
		a, err := ask(t, e.data.FindEnded, &controlv1.FindEndedRequest{Materials: materials})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, x := range a.Ended {
			out[names[x.Index]] = map[bool]string{true: "revoked", false: "expired"}[x.Revoked]
		}
		return out
	}
	want := map[string]string{"revoked": "revoked", "expired": "expired", "of revoked": "revoked", "of expired": "expired", "signed, revoked": "revoked", "forged": "revoked"}
	if diff := cmp.Diff(want, look()); diff != "" {
		t.Error(diff)
	}
	r.do(t, "DELETE", at+"/tokens/"+good.Token.Id, nil).want(t, 204)
	want["good"], want["of good, long expired"] = "revoked", "revoked"
	if diff := cmp.Diff(want, look()); diff != "" {
		t.Error(diff)
	}
	_, err := ask(t, e.data.FindEnded, &controlv1.FindEndedRequest{Materials: make([]*controlv1.Material, access.MaxMaterials+1)})
	wantCode(t, err, space.CodeInvalid)
}
