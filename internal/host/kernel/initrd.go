package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/space-platform/space/internal/durable"
)

// maxGuest bounds the guest's binary; it has some megabytes.
const maxGuest = 64 << 20

// maxInitrds is how many initramfs files are kept: the present one, and a few that a process started before an update may name.
const maxInitrds = 3

// modulesDir is where the guest finds the modules and, in the file "order", their names in the order in which to load them.
const modulesDir = "modules"

// ensureInitrd returns the path and the checksum of an initramfs with this guest and these modules. Making one takes milliseconds, so
// it's always made, and written if it isn't there.
func ensureInitrd(o Options, t tree) (path, sum string, err error) {
	b, err := buildInitrd(o.Guest, t)
	if err != nil {
		return "", "", err
	}
	h := sha256.Sum256(b)
	sum = hex.EncodeToString(h[:])
	path = filepath.Join(o.Dir, "initrd-"+sum[:16]+".cpio")
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(b)) {
		return path, sum, nil
	}
	o.Progress(fmt.Sprintf("writing the initramfs (%.1f MB)", float64(len(b))/1e6))
	if err := durable.WriteFile(path, b, 0o644); err != nil {
		return "", "", err
	}
	return path, sum, keepNewest(filepath.Join(o.Dir, "initrd-*.cpio"), maxInitrds)
}

func buildInitrd(guest string, t tree) ([]byte, error) {
	init, err := readBounded(guest, maxGuest)
	if err != nil {
		return nil, fmt.Errorf("read the guest's program: %w", err)
	}
	var out bytes.Buffer
	a := &archive{w: &out}
	for _, d := range []string{"dev", "proc", "sys", "run", modulesDir} {
		a.dir(d, 0o755)
	}
	a.device("dev/console", 0o600, 5, 1)
	a.device("dev/null", 0o666, 1, 3)
	a.file("init", 0o755, init)
	for _, name := range t.Modules {
		b, err := readBounded(filepath.Join(t.dir, modulesDir, name), maxModule)
		if err != nil {
			return nil, fmt.Errorf("read a module: %w", err)
		}
		a.file(modulesDir+"/"+name, 0o644, b)
	}
	a.file(modulesDir+"/order", 0o644, []byte(lines(t.Modules)))
	if err := a.close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// lines puts each word on a line of its own.
func lines(words []string) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w + "\n")
	}
	return b.String()
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return b, nil
}
