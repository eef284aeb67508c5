package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
)

// keyTimeout bounds the making of a key: a row in the database.
const keyTimeout = 30 * time.Second

// ensureKey sees to it that the user's configuration has a key that opens the platform, and says where.
func ensureKey(ctx context.Context, i instance.Instance, url string) (note, path string, err error) {
	known, path, err := cli.Known(userEnvironment, i.Name)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	valid, err := opens(ctx, i, known.APIKey)
	if err != nil {
		return "", "", err
	}
	if valid && known.URL == url {
		return "the one in " + path, path, nil
	}
	if !valid {
		if known.APIKey, err = newKey(ctx, i); err != nil {
			return "", "", err
		}
	}
	known.URL = url
	return "written to " + path, path, cli.Remember(userEnvironment, i.Name, known)
}

// opens asks the platform whether a key is one of its.
func opens(ctx context.Context, i instance.Instance, key string) (bool, error) {
	if key == "" {
		return false, nil
	}
	c, err := client.New(loopback(i), key)
	if err != nil {
		return false, err
	}
	_, err = c.ListTemplates(ctx)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Code == "unauthenticated" {
		return false, nil
	}
	return err == nil, err
}

// newKey has the control plane's own command make a key; only root and the control plane's user reach the database.
func newKey(ctx context.Context, i instance.Instance) (string, error) {
	c := exec.CommandContext(ctx, filepath.Join(i.BinDir(), "space"), "bootstrap-key", "--instance", i.Name)
	c.Env, c.Dir = minimalEnvironment(), "/"
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("make an API key: %w: %s", err, strings.TrimSpace(said.String()))
	}
	var issued struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(out, &issued); err != nil || issued.Key == "" {
		return "", fmt.Errorf("make an API key: the answer holds none: %v", err)
	}
	return issued.Key, nil
}
