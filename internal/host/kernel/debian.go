package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// metaPackage depends on the newest kernel for cloud guests: no drivers for real hardware, fast to boot.
const metaPackage = "linux-image-cloud-amd64"

// maxOutput bounds what is kept of a program's output for an error.
const maxOutput = 4 << 10

// debPackage is one version of a kernel's package.
type debPackage struct {
	name    string // linux-image-6.1.0-57-cloud-amd64
	version string // 6.1.192-3
}

// release is how the kernel calls itself, and its files.
func (p debPackage) release() string { return strings.TrimPrefix(p.name, "linux-image-") }

// findPackage asks apt which kernel is the newest. If apt has no package lists yet they are fetched.
func findPackage(ctx context.Context, progress func(string)) (debPackage, error) {
	progress("looking for Debian's kernel for cloud guests")
	p, err := queryPackage(ctx)
	if err == nil || ctx.Err() != nil {
		return p, err
	}
	if err := updateLists(ctx, progress); err != nil {
		return debPackage{}, err
	}
	return queryPackage(ctx)
}

func queryPackage(ctx context.Context) (debPackage, error) {
	out, err := run(ctx, "", "apt-cache", "--no-all-versions", "show", metaPackage)
	if err != nil {
		return debPackage{}, fmt.Errorf("find package %s: %w", metaPackage, err)
	}
	return parsePackage(out)
}

func updateLists(ctx context.Context, progress func(string)) error {
	progress("updating apt's package lists")
	if _, err := run(ctx, "", "apt-get", "update"); err != nil {
		return fmt.Errorf("update apt's package lists: %w", err)
	}
	return nil
}

var dependsRE = regexp.MustCompile(`(?m)^Depends:.*?\b(linux-image-[a-z0-9.+-]+) \(= ([A-Za-z0-9.+~-]+)\)`)

// parsePackage reads from the metapackage's record which kernel it stands for.
func parsePackage(record []byte) (debPackage, error) {
	m := dependsRE.FindSubmatch(record)
	if m == nil {
		return debPackage{}, fmt.Errorf("package %s names no kernel that it depends on", metaPackage)
	}
	return debPackage{name: string(m[1]), version: string(m[2])}, nil
}

// unpack downloads the package, which apt verifies, and unpacks it below scratch. Lists that name a version which the mirror has replaced
// since are updated once.
func (p debPackage) unpack(ctx context.Context, scratch string, progress func(string)) (root string, err error) {
	progress(fmt.Sprintf("downloading %s %s", p.name, p.version))
	if err := p.download(ctx, scratch); err != nil {
		if uerr := updateLists(ctx, progress); uerr != nil {
			return "", errors.Join(err, uerr)
		}
		if err := p.download(ctx, scratch); err != nil {
			return "", err
		}
	}
	debs, err := filepath.Glob(filepath.Join(scratch, "*.deb"))
	if err != nil || len(debs) != 1 {
		return "", fmt.Errorf("download %s: found %d packages, want 1", p.name, len(debs))
	}
	progress("unpacking " + p.name)
	root = filepath.Join(scratch, "root")
	if _, err := run(ctx, scratch, "dpkg-deb", "-x", debs[0], root); err != nil {
		return "", fmt.Errorf("unpack %s: %w", p.name, err)
	}
	return root, nil
}

func (p debPackage) download(ctx context.Context, dir string) error {
	// The sandbox user couldn't write into root's directory; apt would say so and go on as root.
	if _, err := run(ctx, dir, "apt-get", "-o", "APT::Sandbox::User=root", "download", p.name+"="+p.version); err != nil {
		return fmt.Errorf("download %s %s: %w", p.name, p.version, err)
	}
	return nil
}

// run runs a program and returns its output; an error has the end of what it said.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		tail := said.Bytes()[max(0, said.Len()-maxOutput):]
		return nil, fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(tail))
	}
	return out.Bytes(), nil
}
