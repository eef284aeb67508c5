package cli

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// maxAuthFile bounds a file with logins, in bytes.
const maxAuthFile = 1 << 20

// dockerHub is how docker's configuration calls the registry of references that name none, and what else it's called.
var dockerHub = map[string]bool{"index.docker.io": true, "docker.io": true, "registry-1.docker.io": true}

// addAuth adds the login for the image's registry that a file has. It comes by no flag's value, which others could see.
func (f *templateFlags) addAuth(in *client.TemplateCreate, stdin io.Reader) error {
	switch {
	case f.auth == "":
		return nil
	case in.Image == nil:
		return wrongly("name the image, too", "--registry-auth is of use with --image only")
	case f.auth == "-" && (f.file == "-" || f.archive == "-" || f.rootfs == "-"):
		return wrongly("put one of them into a file", "two flags want to read stdin")
	}
	r, err := opened(f.auth, stdin)
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxAuthFile))
	if err != nil {
		return err
	}
	in.RegistryAuth, err = readAuth(string(b), registryOf(*in.Image))
	return err
}

// readAuth reads a login for a registry. No error repeats anything of it.
func readAuth(text, registry string) (*gen.RegistryAuth, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, wrongly("write a docker config.json, USERNAME:PASSWORD or a token", "the login for the registry is empty")
	case strings.HasPrefix(text, "{"):
		return readDockerConfig(text, registry)
	}
	if name, password, ok := strings.Cut(text, ":"); ok {
		return &gen.RegistryAuth{Username: &name, Password: &password}, nil
	}
	return &gen.RegistryAuth{Token: &text}, nil
}

// readDockerConfig reads the login that docker has kept for a registry.
func readDockerConfig(text, registry string) (*gen.RegistryAuth, error) {
	var config struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			Username      string `json:"username"`
			Password      string `json:"password"`
			RegistryToken string `json:"registrytoken"`
		} `json:"auths"`
	}
	if json.Unmarshal([]byte(text), &config) != nil {
		return nil, wrongly("see ~/.docker/config.json", "the login for the registry is no docker configuration")
	}
	for key, a := range config.Auths {
		if host := hostOfKey(key); host != registry && !(dockerHub[host] && dockerHub[registry]) {
			continue
		}
		if a.RegistryToken != "" {
			return &gen.RegistryAuth{Token: &a.RegistryToken}, nil
		}
		if b, err := base64.StdEncoding.DecodeString(a.Auth); err == nil && a.Username == "" {
			a.Username, a.Password, _ = strings.Cut(string(b), ":")
		}
		if a.Username != "" && a.Password != "" {
			return &gen.RegistryAuth{Username: &a.Username, Password: &a.Password}, nil
		}
	}
	return nil, wrongly("if docker keeps its logins in a credential store, pipe USERNAME:PASSWORD into --registry-auth -",
		"the docker configuration has no login for %s", registry)
}

// hostOfKey is the registry of an entry, which may be written as a URL.
func hostOfKey(key string) string {
	_, after, ok := strings.Cut(key, "://")
	if ok {
		key = after
	}
	host, _, _ := strings.Cut(key, "/")
	return host
}

// registryOf is the registry that an image reference names.
func registryOf(reference string) string {
	first, _, ok := strings.Cut(reference, "/")
	if ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first
	}
	return "index.docker.io"
}
