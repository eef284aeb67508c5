package disk

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk/btrfs"
)

const (
	// leastNames is how many bytes a volume has for metadata before its data can fill it.
	leastNames = 32 << 20
	// namesFrom is the smallest volume, in bytes, that gets so much: it takes 130 MiB of it or more.
	namesFrom = 2 << 30
)

// ensureNames gives a new volume room for the names of files. mkfs.btrfs makes 8 MiB, which btrfs adds to while there's room: where data fills a volume that has
// never held many files, a suspend and a session would find no room for their directories, whatever is kept for what is in them. btrfs has no other way to say so
// than to have what there is moved, which takes some 20 ms. A volume that has enough isn't touched, and one that is full already stays as it is.
func (v Volume) ensureNames(ctx context.Context) error {
	var s unix.Statfs_t
	if err := unix.Statfs(v.Path, &s); err != nil {
		return fmt.Errorf("look at the room of volume %s: %w", v.Path, err)
	}
	if int64(s.Blocks)*s.Bsize < namesFrom {
		return nil
	}
	has, err := btrfs.MetadataBytes(v.Path)
	if err != nil || has >= leastNames {
		return err
	}
	out, err := exec.CommandContext(ctx, "btrfs", "balance", "start", "-m", "--force", v.Path).CombinedOutput()
	if err != nil { // what there is of the volume can be used all the same
		slog.Warn("can't make room for names on the volume", "volume", v.Path, "err", err, "says", strings.TrimSpace(string(out)))
	}
	return nil
}
