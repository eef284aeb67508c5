package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/space-platform/space/internal/pgserver"
)

// Packages are the Debian packages that the platform uses, beside PostgreSQL.
func Packages() []string {
	return []string{
		"qemu-system-x86",      // the VMM
		"btrfs-progs",          // the volume
		"e2fsprogs",            // disks of templates
		"mmdebstrap",           // makes the base template
		"busybox-static",       // makes the mini template
		"kmod",                 // loop, tun and btrfs where they are modules
		"nftables", "iproute2", // for people who look at what the platform made
		"ca-certificates",
	}
}

// installTimeout bounds the installation; a slow mirror needs minutes.
const installTimeout = 20 * time.Minute

// Missing returns the packages that aren't installed.
func Missing(ctx context.Context) ([]string, error) {
	want := Packages()
	// It fails when it doesn't know one of the names, which is an answer too.
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", "--", "dpkg").Output()
	if err != nil {
		return nil, fmt.Errorf("ask dpkg what is installed (SPACE installs itself on Debian 12 and later): %w", err)
	}
	out, _ = exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f", "${Package} ${db:Status-Status}\n", "--"}, want...)...).Output()
	missing := notInstalled(want, string(out))
	if _, err := pgserver.Binaries(pgserver.Root, ""); errors.Is(err, pgserver.ErrNotInstalled) {
		missing = append(missing, "postgresql")
	}
	return missing, nil
}

// notInstalled returns the names that dpkg-query's output doesn't call installed.
func notInstalled(names []string, output string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return slices.Contains(strings.Split(output, "\n"), n+" installed")
	})
}

// Install installs packages, telling what apt-get says. Lists are fetched when there are none, or when they turn out to be stale.
func Install(ctx context.Context, names []string, tell io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	restore, err := withoutMainCluster()
	if err != nil {
		return err
	}
	defer restore()
	install := append([]string{"install", "--yes", "--no-install-recommends"}, names...)
	if haveLists() {
		if err := aptGet(ctx, tell, install...); err == nil {
			return nil
		}
	}
	if err := aptGet(ctx, tell, "update"); err != nil {
		return err
	}
	return aptGet(ctx, tell, install...)
}

func aptGet(ctx context.Context, tell io.Writer, args ...string) error {
	c := exec.CommandContext(ctx, "apt-get", append([]string{"--quiet", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	c.Stdout, c.Stderr = tell, tell
	if err := c.Run(); err != nil {
		return fmt.Errorf("run apt-get %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func haveLists() bool {
	lists, err := filepath.Glob("/var/lib/apt/lists/*_Packages*")
	return err == nil && len(lists) > 0
}

// mainCluster is read by Debian's scripts, which else make and start a server that nobody asked for.
const mainCluster = "/etc/postgresql-common/createcluster.d/space.conf"

// withoutMainCluster keeps the installation of PostgreSQL from making a server until restore is called.
func withoutMainCluster() (restore func(), err error) {
	dir := filepath.Dir(mainCluster)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keep PostgreSQL from making a server of its own: %w", err)
	}
	if err := os.WriteFile(mainCluster, []byte("create_main_cluster = false\n"), 0o644); err != nil {
		return nil, fmt.Errorf("keep PostgreSQL from making a server of its own: %w", err)
	}
	return func() {
		os.Remove(mainCluster)
		os.Remove(dir) // fails unless it's empty, which is meant
		os.Remove(filepath.Dir(dir))
	}, nil
}
