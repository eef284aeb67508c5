package image

import (
	"fmt"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Config is what an image says about running it. Entrypoint and Cmd are kept for whoever looks; nothing starts them.
type Config struct {
	Env        map[string]string `json:"env,omitempty"`
	User       string            `json:"user,omitempty"`    // a name or a number
	WorkingDir string            `json:"workdir,omitempty"` // absolute
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
}

// Limits of a configuration.
const (
	maxEnv      = 256
	maxEnvBytes = 128 << 10
	maxCommand  = 128 << 10 // bytes of entrypoint and command each
	maxUser     = 64
)

// What an image means that doesn't say so.
const (
	defaultUser = "root"
	defaultDir  = "/"
)

// configOf reads an image's configuration.
func configOf(f *v1.ConfigFile) (Config, error) {
	if err := checkPlatform(f); err != nil {
		return Config{}, err
	}
	c := Config{User: defaultUser, WorkingDir: defaultDir, Entrypoint: f.Config.Entrypoint, Cmd: f.Config.Cmd}
	if f.Config.WorkingDir != "" {
		parts, err := split(f.Config.WorkingDir)
		if err != nil {
			return c, fmt.Errorf("the image's working directory: %w", err)
		}
		c.WorkingDir = "/" + join(parts)
	}
	if user, _, _ := strings.Cut(f.Config.User, ":"); user != "" {
		c.User = user
	}
	if len(c.User) > maxUser {
		return c, fmt.Errorf("the image's user: %w", tooMany("bytes", int64(len(c.User)), maxUser))
	}
	for _, command := range [][]string{c.Entrypoint, c.Cmd} {
		if n := len(strings.Join(command, " ")); n > maxCommand {
			return c, fmt.Errorf("the image's command: %w", tooMany("bytes", int64(n), maxCommand))
		}
	}
	var err error
	c.Env, err = environment(f.Config.Env)
	return c, err
}

// environment reads NAME=VALUE. What has no name is left out, as a container runtime does.
func environment(list []string) (map[string]string, error) {
	env, size := map[string]string{}, 0
	for _, line := range list {
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.Contains(line, "\x00") {
			continue
		}
		env[name] = value
		size += len(line)
	}
	switch {
	case len(env) > maxEnv:
		return nil, fmt.Errorf("the image's environment: %w", tooMany("variables", int64(len(env)), maxEnv))
	case size > maxEnvBytes:
		return nil, fmt.Errorf("the image's environment: %w", tooMany("bytes", int64(size), maxEnvBytes))
	}
	return env, nil
}

// platform is what runs here.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// checkPlatform refuses what can't run here. An image that doesn't say is taken at its word.
func checkPlatform(f *v1.ConfigFile) error {
	if f.OS != "" && f.OS != platform.OS || f.Architecture != "" && f.Architecture != platform.Architecture {
		return fmt.Errorf("%w: the image is for %s/%s, this node runs %s", ErrMalformed, clip(f.OS), clip(f.Architecture), platform)
	}
	return nil
}
