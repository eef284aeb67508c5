package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
)

// platform is an instance that is measured.
type platform struct {
	name, template string
	space          string // the binary

	client *client.Client // nil before it's started
	inst   instance.Instance
}

// newPlatform names one whose programs lie in a directory.
func newPlatform(name, template, bin string) (*platform, error) {
	path, err := filepath.Abs(filepath.Join(bin, "space"))
	return &platform{name: name, template: template, space: path}, err
}

// start starts the platform with a configuration, and makes its template; one that runs is restarted.
func (p *platform) start(ctx context.Context, config string) error {
	if p.client != nil {
		if err := p.command(ctx, "down", "--force"); err != nil {
			return err
		}
	}
	if err := p.command(ctx, "setup"); err != nil {
		return err
	}
	var err error
	if p.inst, err = instance.Find(p.name); err != nil {
		return err
	}
	if err := os.WriteFile(p.inst.ConfigFile(), []byte(config), 0o644); err != nil {
		return err
	}
	if err := p.command(ctx, "up"); err != nil {
		return err
	}
	if err := p.command(ctx, "template", "build", p.template); err != nil {
		return err
	}
	c, err := cli.Load(cli.Overrides{Instance: p.name})
	if err != nil {
		return err
	}
	p.client, err = client.New(c.URL, c.APIKey)
	return err
}

// purge removes the platform.
func (p *platform) purge(ctx context.Context) error {
	return p.command(context.WithoutCancel(ctx), "purge", "--yes")
}

func (p *platform) command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, p.space, append(args, "--instance", p.name)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("space %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
