package postgres

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/space-platform/space/internal/control/record"
)

// The contexts of sealed columns: each value opens in its own row and column only.
func envContext(sandbox string) string           { return "sandboxes.env_sealed/" + sandbox }
func fileKeyContext(sandbox string) string       { return "sandboxes.file_key_sealed/" + sandbox }
func sessionContext(session string) string       { return "sessions.secret_sealed/" + session }
func buildContext(template string) string        { return "templates.build_sealed/" + template }
func registryAuthContext(template string) string { return "templates.registry_auth_sealed/" + template }
func templateEnvContext(template string) string  { return "template_status.env_sealed/" + template }

var errNoKey = errors.New("the store has no encryption key")

func (s *Store) seal(value []byte, context string) ([]byte, error) {
	if s.key == nil {
		return nil, fmt.Errorf("seal %s: %w", context, errNoKey)
	}
	out, err := s.key.Seal(value, context)
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", context, err)
	}
	return out, nil
}

func (s *Store) open(sealed []byte, context string) ([]byte, error) {
	if s.key == nil {
		return nil, fmt.Errorf("open %s: %w", context, errNoKey)
	}
	out, err := s.key.Open(sealed, context)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", context, err)
	}
	return out, nil
}

// sealEnv seals an environment; an empty one is null.
func (s *Store) sealEnv(env map[string]string, context string) ([]byte, error) {
	if len(env) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(env)
	if err != nil {
		return nil, err
	}
	return s.seal(b, context)
}

func (s *Store) openEnv(sealed []byte, context string) (map[string]string, error) {
	if sealed == nil {
		return nil, nil
	}
	b, err := s.open(sealed, context)
	if err != nil {
		return nil, err
	}
	var out map[string]string
	return out, json.Unmarshal(b, &out)
}

// secretSpec is what may be secret of what a session runs.
type secretSpec struct {
	Env   map[string]string `json:"env,omitempty"`
	Stdin []byte            `json:"stdin,omitempty"`
}

// sealSpec seals what may be secret of a spec; if there is nothing, it's null.
func (s *Store) sealSpec(session string, spec record.Spec) ([]byte, error) {
	if len(spec.Env) == 0 && len(spec.Stdin) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(secretSpec{Env: spec.Env, Stdin: spec.Stdin})
	if err != nil {
		return nil, err
	}
	return s.seal(b, sessionContext(session))
}

func (s *Store) openSpec(session string, sealed []byte, into *record.Spec) error {
	if sealed == nil {
		return nil
	}
	b, err := s.open(sealed, sessionContext(session))
	if err != nil {
		return err
	}
	var secret secretSpec
	err = json.Unmarshal(b, &secret)
	into.Env, into.Stdin = secret.Env, secret.Stdin
	return err
}

// sealBuild seals what a template is made of: its commands and environment may be secret.
func (s *Store) sealBuild(template string, build record.Build) ([]byte, error) {
	b, err := json.Marshal(build)
	if err != nil {
		return nil, err
	}
	return s.seal(b, buildContext(template))
}

// sealAuth seals a login; none is null.
func (s *Store) sealAuth(template string, auth *record.RegistryAuth) ([]byte, error) {
	if auth == nil {
		return nil, nil
	}
	b, err := json.Marshal(auth)
	if err != nil {
		return nil, err
	}
	return s.seal(b, registryAuthContext(template))
}

func (s *Store) openAuth(template string, sealed []byte) (*record.RegistryAuth, error) {
	if sealed == nil {
		return nil, nil
	}
	b, err := s.open(sealed, registryAuthContext(template))
	if err != nil {
		return nil, err
	}
	out := new(record.RegistryAuth)
	return out, json.Unmarshal(b, out)
}

func (s *Store) openBuild(template string, sealed []byte) (out record.Build, err error) {
	b, err := s.open(sealed, buildContext(template))
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(b, &out)
}
