package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// sbin is where Debian keeps what root needs, whatever the caller's PATH.
var sbin = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// qemuProgram is where the driver expects QEMU: inside an enclosure only /usr is the host's.
const qemuProgram = "/usr/bin/qemu-system-x86_64"

// install is the command that installs packages.
func install(packages ...string) string {
	return "apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
}

// find returns a program's path; "" if it isn't installed.
func find(name string) string {
	for _, dir := range sbin {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func lookQEMU(ctx context.Context, _ Options) verdict {
	v, err := qemuVersion(ctx)
	return judgeQEMU(v, err)
}

// qemuVersion asks QEMU.
func qemuVersion(ctx context.Context) (string, error) {
	out, err := monitor.AskVersion(ctx, qemuProgram)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimPrefix(line, "QEMU emulator version "), nil
}

var versionRE = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})`)

// judgeQEMU: 7.2 is the oldest that was tried. Before 8.2 QEMU opens a private memory file read-write.
func judgeQEMU(version string, err error) verdict {
	if errors.Is(err, os.ErrNotExist) {
		return verdict{Fail, qemuProgram + " isn't installed", "no machine can start", install("qemu-system-x86")}
	}
	if err != nil {
		return verdict{Fail, err.Error(), "no machine can start", install("--reinstall", "qemu-system-x86")}
	}
	m := versionRE.FindStringSubmatch(version)
	if m == nil {
		return verdict{Warn, fmt.Sprintf("version %q", version), "it can't be said whether it's new enough: 7.2 is needed", qemuProgram + " --version"}
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	switch {
	case before(major, minor, 7, 2):
		return verdict{Fail, version, "too old: 7.2 is needed", "apt-get update && " + install("qemu-system-x86")}
	case before(major, minor, 8, 2):
		return verdict{Info, version, "each machine gets a memory file of its own; from 8.2 on machines of one template share theirs", ""}
	default:
		return fine(version)
	}
}

func lookPostgres(context.Context, Options) verdict {
	servers, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return verdict{state: Fail, detail: err.Error()}
	}
	return judgePostgres(servers)
}

// judgePostgres: the queries use what 15 has, which is Debian 12's.
func judgePostgres(servers []string) verdict {
	const oldest = 15
	newest := 0
	for _, s := range servers {
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(s)))); err == nil {
			newest = max(newest, v)
		}
	}
	switch {
	case newest == 0:
		return verdict{Fail, "no server is installed", "the control plane has no database", install("postgresql")}
	case newest < oldest:
		return verdict{Fail, fmt.Sprintf("version %d", newest), fmt.Sprintf("too old: %d is needed", oldest), "apt-get update && " + install("postgresql")}
	default:
		return fine(fmt.Sprintf("version %d", newest))
	}
}

func lookTemplateTools(context.Context, Options) verdict {
	missing := map[string]bool{}
	for program, pkg := range templateTools {
		if find(program) == "" {
			missing[pkg] = true
		}
	}
	return judgeTemplateTools(missing)
}

// templateTools are the programs that a template build calls, with their packages.
var templateTools = map[string]string{"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "busybox": "busybox-static"}

func judgeTemplateTools(missing map[string]bool) verdict {
	if len(missing) == 0 {
		return fine("mmdebstrap, mke2fs, busybox")
	}
	names := sortedKeys(missing)
	return verdict{Fail, "missing: " + strings.Join(names, ", "), "templates can't be built, and without one there's no sandbox", install(names...)}
}
