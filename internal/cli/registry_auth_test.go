package cli

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
)

func TestReadAuth(t *testing.T) {
	none := ""
	const config = `{"auths": {
		"https://index.docker.io/v1/": {"auth": "aHViOnB3"},
		"registry.example:5000": {"username": "robot", "password": "c:anary"},
		"tokens.example": {"registrytoken": "t"}, "stored.example": {}}, "credsStore": "desktop"}`
	for name, x := range map[string]struct{ text, image, want string }{
		"a password with a colon": {"robot:pass:word\n", "registry.example/a", "robot pass:word "},
		"a token":                 {"abc.def\n", "registry.example/a", "  abc.def"},
		"docker's, by its URL":    {config, "alpine:3", "hub pw "},
		"docker's, by a name":     {config, "docker.io/library/alpine", "hub pw "},
		"with a port":             {config, "registry.example:5000/a/b@sha256:0", "robot c:anary "},
		"docker's token":          {config, "tokens.example/a", "  t"},
		"in a store":              {config, "stored.example/a", "no login for stored.example"},
		"another registry":        {config, "registry.example/a", "no login for registry.example"},
		"nothing":                 {" \n", "registry.example/a", "is empty"},
		"no docker configuration": {"{canary", "registry.example/a", "no docker configuration"},
	} {
		a, err := readAuth(x.text, registryOf(x.image))
		if err != nil {
			if !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v, want %q", name, err, x.want)
			}
			continue
		}
		if got := fmt.Sprintf("%s %s %s", *cmp.Or(a.Username, &none), *cmp.Or(a.Password, &none), *cmp.Or(a.Token, &none)); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
