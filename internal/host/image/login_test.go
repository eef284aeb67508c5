package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// guarded puts a login before a registry: "basic" wants a name with a password at each request, "bearer" a token that its service gives
// for them, as most registries do.
func guarded(t *testing.T, kind string, next http.Handler) *httptest.Server {
	t.Helper()
	const name, password, token = "robot", "s3cret-canary", "token-canary"
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, p, _ := r.BasicAuth()
		if kind == "bearer" && r.URL.Path == "/token" && n == name && p == password && r.URL.Query().Get("service") == "images" {
			json.NewEncoder(w).Encode(map[string]string{"token": token})
			return
		}
		want, challenge := "Basic "+base64.StdEncoding.EncodeToString([]byte(name+":"+password)), `Basic realm="images"`
		if kind == "bearer" {
			want, challenge = "Bearer "+token, fmt.Sprintf(`Bearer realm="%s/token",service="images"`, s.URL)
		}
		if r.Header.Get("Authorization") != want {
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestLoginOpensARegistry(t *testing.T) {
	i, want := two(t)
	open, _ := serve(t, i)
	host, path, _ := strings.Cut(open, "/")
	forward := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host, r.RequestURI = "http", host, ""
		r.Header.Del("Authorization")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		if _, err := io.Copy(w, resp.Body); err != nil {
			t.Error(err)
		}
	})
	password := Login{Username: "robot", Password: "s3cret-canary"}
	for name, x := range map[string]struct {
		kind  string
		login Login
		err   error
	}{
		"basic":                  {"basic", password, nil},
		"bearer":                 {"bearer", password, nil},
		"a token":                {"bearer", Login{Token: "token-canary"}, nil},
		"none":                   {"bearer", Login{}, ErrNotFound},
		"a wrong password":       {"basic", Login{Username: "robot", Password: "s3cret-canary-2"}, ErrLogin},
		"a wrong one for tokens": {"bearer", Login{Username: "robot", Password: "s3cret-canary-2"}, ErrLogin},
		"a wrong token":          {"bearer", Login{Token: "token-canary-2"}, ErrLogin},
	} {
		t.Run(name, func(t *testing.T) {
			r := testRegistry(t)
			r.Login = x.login
			reference := strings.TrimPrefix(guarded(t, x.kind, forward).URL, "http://") + "/" + path
			got, err := r.Find(t.Context(), reference)
			if !errors.Is(err, x.err) || err != nil && strings.Contains(err.Error(), "canary") {
				t.Fatalf("got %v, want %v", err, x.err)
			}
			if err == nil {
				checkImage(t, got, want)
			}
		})
	}
	if text := fmt.Sprintf("%v %+v %#v %s", password, password, password, password); strings.Contains(text, "canary") {
		t.Errorf("it's printed: %s", text)
	}
}

// TestKnownDigestOpensNoPrivateLayer has somebody name the layers of a private image that was pulled here, in a registry of their own that hasn't got
// them.
func TestKnownDigestOpensNoPrivateLayer(t *testing.T) {
	i, want := two(t)
	private, _ := serve(t, i)
	r := testRegistry(t)
	r.Login = Login{Username: "robot", Password: "s3cret-canary"}
	got, err := r.Find(t.Context(), private)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, got, want)
	other, first := serve(t, i)
	hollow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") && !isConfig(i, r) {
			w.Header().Set("Answered", "no")
			w.WriteHeader(http.StatusNotFound)
		}
	})
	first.Store(&hollow)
	r.Login = Login{}
	stolen, err := r.Find(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	tree, root := newTree(t, DefaultLimits)
	if err := stolen.Apply(t.Context(), tree, func(string) {}); !errors.Is(err, ErrNotFound) {
		t.Errorf("it has %v, error %v", listing(t, root), err)
	}
}
