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
	Name   string
	Size   Size      // of its machines; see Sized
	Warmup []Command // run one after the other before the base snapshot, so that their pages are in its memory

	least    Size
	suite    string // of Debian
	packages []string
	fill     func(ctx context.Context, b *build) error
}

// Size is the size of a template's machines.
type Size struct {
	VCPUs       int   `json:"vcpus"`
	MemoryBytes int64 `json:"memory_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
}

// most is the largest size of any recipe.
var most = Size{VCPUs: 32, MemoryBytes: 64 * gib, DiskBytes: 1024 * gib}

// String says the size in words.
func (s Size) String() string {
	return fmt.Sprintf("%d vCPU, %d MiB of memory, %d MiB of disk", s.VCPUs, s.MemoryBytes/mib, s.DiskBytes/mib)
}

// Command is a program to run in the guest.
type Command struct {
	User string
	Argv []string
}

// revision changes when what a recipe writes changes in a way that its other fields don't tell.
const revision = "2"

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Recipes returns all recipes.
func Recipes() []Recipe {
	return []Recipe{
		{
			Name:  "base",
			Size:  Size{VCPUs: 1, MemoryBytes: 512 * mib, DiskBytes: 4 * gib},
			least: Size{VCPUs: 1, MemoryBytes: 256 * mib, DiskBytes: 1 * gib},
			Warmup: []Command{
				{User: "user", Argv: []string{"/bin/sh", "-c", "id && ls / >/dev/null && echo"}},
				{User: "user", Argv: []string{"python3", "-c", "import json, os, subprocess, sys; subprocess.run(['true'])"}},
				{User: "user", Argv: []string{"/bin/echo"}},
			},
			suite: release,
			packages: []string{
				"ca-certificates", "curl", "file", "git", "iproute2", "jq", "less", "nano", "netbase", "nodejs", "npm", "openssh-client", "procps",
				"python-is-python3", "python3", "python3-pip", "python3-venv", "ripgrep", "sudo", "tzdata", "unzip", "wget", "xz-utils", "zip",
			},
			fill: fillBase,
		},
		{
			Name:  "mini",
			Size:  Size{VCPUs: 1, MemoryBytes: 128 * mib, DiskBytes: 64 * mib},
			least: Size{VCPUs: 1, MemoryBytes: space.MinMemoryMiB * mib, DiskBytes: 16 * mib},
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

// debianRecipe makes a Debian that somebody has ordered.
func debianRecipe(d Debian) Recipe {
	return Recipe{Name: "debian", suite: d.Suite, packages: d.Packages, fill: fillDebian}
}

// DebianDigest changes when a Debian should be made again, as Recipe.Digest does. What its archive holds today isn't part of it.
func DebianDigest(d Debian) string { return debianRecipe(d).Digest() }

// Sized returns the recipe for machines of another size; the zero size is the recipe's own. Sizes are whole MiB.
func (r Recipe) Sized(s Size) (Recipe, error) {
	switch {
	case s == Size{}:
		return r, nil
	case s.VCPUs < r.least.VCPUs || s.VCPUs > most.VCPUs:
		return r, space.FieldErrorf("shape.vcpus", "%s takes %d to %d", r.Name, r.least.VCPUs, most.VCPUs)
	case s.MemoryBytes < r.least.MemoryBytes || s.MemoryBytes > most.MemoryBytes || s.MemoryBytes%mib != 0:
		return r, space.FieldErrorf("shape.memory_bytes", "%s takes %d to %d, whole MiB", r.Name, r.least.MemoryBytes, most.MemoryBytes)
	case s.DiskBytes < r.least.DiskBytes || s.DiskBytes > most.DiskBytes || s.DiskBytes%mib != 0:
		return r, space.FieldErrorf("shape.disk_bytes", "%s takes %d to %d, whole MiB", r.Name, r.least.DiskBytes, most.DiskBytes)
	}
	r.Size = s
	return r, nil
}

// Digest changes when a template that was made by an older version of the recipe should be made again.
func (r Recipe) Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, revision, r.Name, r.Size, r.Warmup, r.suite, r.packages)
	files := etcFiles()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s\n%s\n", name, files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}
