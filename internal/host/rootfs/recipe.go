package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	space "github.com/space-platform/space"
)

// Recipe says how to make a template.
type Recipe struct {
	Name        string
	VCPUs       int
	MemoryBytes int64
	DiskBytes   int64
	Warmup      []Command // run one after the other before the base snapshot, so that their pages are in its memory

	packages []string
	fill     func(ctx context.Context, b build) error
}

// Command is a program to run in the guest.
type Command struct {
	User string
	Argv []string
}

// revision changes when what a recipe writes changes in a way that its other fields don't tell.
const revision = "1"

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Recipes returns all recipes.
func Recipes() []Recipe {
	return []Recipe{
		{
			Name: "base", VCPUs: 1, MemoryBytes: 512 * mib, DiskBytes: 4 * gib,
			Warmup: []Command{
				{User: "user", Argv: []string{"/bin/sh", "-c", "id && ls / >/dev/null && echo"}},
				{User: "user", Argv: []string{"python3", "-c", "import json, os, subprocess, sys; subprocess.run(['true'])"}},
				{User: "user", Argv: []string{"/bin/echo"}},
			},
			packages: []string{
				"ca-certificates", "curl", "git", "iproute2", "less", "netbase", "procps", "python3", "python3-pip", "python3-venv", "sudo", "tzdata",
			},
			fill: fillBase,
		},
		{
			Name: "mini", VCPUs: 1, MemoryBytes: 128 * mib, DiskBytes: 256 * mib,
			Warmup: []Command{
				{User: "user", Argv: []string{"/bin/sh", "-c", "id && ls / >/dev/null && echo"}},
				{User: "user", Argv: []string{"/bin/echo"}},
			},
			fill: fillMini,
		},
	}
}

// Find returns the recipe of a name.
func Find(name string) (Recipe, error) {
	for _, r := range Recipes() {
		if r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, space.FieldErrorf("recipe", "%q is unknown; there are base and mini", space.Clip(name))
}

// Digest changes when a template that was made by an older version of the recipe should be made again.
func (r Recipe) Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, revision, r.Name, r.VCPUs, r.MemoryBytes, r.DiskBytes, r.Warmup, r.packages)
	files := etcFiles()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s\n%s\n", name, files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}
