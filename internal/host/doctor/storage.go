package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
	"github.com/space-platform/space/internal/instance"
)

const (
	gib = 1 << 30
	// keepFree is what the data directory's file system needs for the database, logs and session output.
	keepFree = 1 * gib
	// volumeLow is the share of the volume below which there's a warning, in percent.
	volumeLow = 10
	// volumeRefusing is the share below which the node begins nothing new, in percent; see host.
	volumeRefusing = 5
)

// diskFacts are about the file system that holds the data directory.
type diskFacts struct {
	path    string
	free    int64
	native  bool  // it's btrfs: no image is needed
	image   int64 // size of the volume's image, 0 if it isn't there yet
	planned int64 // its size by the configuration
}

func lookDisk(_ context.Context, o Options) verdict {
	f := diskFacts{path: o.Instance.DataDir(), planned: int64(planned(o)) * gib}
	dir := nearest(f.path)
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return verdict{state: Fail, detail: fmt.Sprintf("look at the file system of %s: %v", dir, err)}
	}
	f.free = int64(s.Bavail) * s.Bsize
	f.native, _ = btrfs.Is(dir)
	if info, err := os.Stat(o.Instance.VolumeImage()); err == nil {
		f.image = info.Size()
	}
	return judgeDisk(f)
}

func planned(o Options) int {
	if o.Config.VolumeGiB > 0 {
		return o.Config.VolumeGiB
	}
	return instance.DefaultVolumeGiB
}

func judgeDisk(f diskFacts) verdict {
	need := int64(keepFree)
	detail := fmt.Sprintf("%s has %s free", f.path, gibs(f.free))
	if f.image == 0 {
		need = f.planned + disk.DefaultReserve
		detail += fmt.Sprintf("; the volume will take %s", gibs(f.planned))
	}
	if f.free >= need {
		return fine(detail)
	}
	if f.image == 0 {
		return verdict{Fail, detail, fmt.Sprintf("the volume doesn't fit: %s must be free, or volume_gib in the configuration smaller", gibs(need)), "apt-get clean"}
	}
	return verdict{Warn, detail, "the database, logs and output of sessions will soon have no room", "apt-get clean"}
}

func lookVolume(_ context.Context, o Options) verdict {
	v := disk.Volume{Path: o.Instance.Volume(), Image: o.Instance.VolumeImage()}
	mounted, err := v.Mounted()
	if err != nil {
		return verdict{state: Fail, detail: err.Error(), meaning: "the volume can't be looked at"}
	}
	if !mounted {
		return verdict{state: Info, detail: "not mounted", meaning: "'space up' makes and mounts it"}
	}
	u, err := v.Usage()
	if err != nil {
		return verdict{state: Fail, detail: err.Error(), meaning: "the volume can't be looked at"}
	}
	return judgeVolume(u, v.Image)
}

func judgeVolume(u disk.Usage, image string) verdict {
	detail := fmt.Sprintf("%s of %s free", gibs(u.FreeBytes), gibs(u.Bytes))
	switch {
	case u.ImageBytes > 0 && u.AllocatedBytes < u.ImageBytes && u.BelowFreeBytes < u.ImageBytes-u.AllocatedBytes:
		return verdict{Fail, detail + fmt.Sprintf("; its image has holes, and the file system below only %s", gibs(u.BelowFreeBytes)), "machines will see write errors when the file system below is full", "apt-get clean"}
	case u.ImageBytes > 0 && u.AllocatedBytes < u.ImageBytes:
		return verdict{Warn, detail + "; its image has holes", "whoever fills the file system below takes blocks away from machines", fmt.Sprintf("fallocate -l %d %s", u.ImageBytes, image)}
	case u.FreeBytes*100 <= u.Bytes*volumeRefusing:
		return verdict{Fail, detail, "no sandboxes, forks, templates and snapshots are made; what runs, deletes and suspends go on", "space snapshot ls"}
	case u.FreeBytes*100 < u.Bytes*volumeLow:
		return verdict{Warn, detail, "from 95 % on nothing new is made, and writes of running sandboxes will fail when it's full", "space snapshot ls"}
	case u.ImageBytes > 0 && u.BelowFreeBytes < keepFree:
		return verdict{Warn, detail + fmt.Sprintf("; %s below it", gibs(u.BelowFreeBytes)), "the volume is safe; the database, logs and output of sessions share what is left", "apt-get clean"}
	default:
		return fine(detail)
	}
}

// nearest is a path, or the first directory above it that exists.
func nearest(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}

func gibs(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/gib) }
