package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/space-platform/space/internal/host/image"
)

// DiskName is the name of the image in an order's directory.
const DiskName = "disk.img"

// How large a disk is that nobody ordered another size for.
const (
	leastDisk     = 64 * mib
	journalBytes  = 16 * mib // of a disk of a gibibyte or more
	inodeBytes    = 256
	bytesPerInode = 16 << 10 // what mke2fs plans for
	spareInodes   = 4096
	labelBytes    = 16
)

// errTooSmall is wrapped when the files don't fit the disk that was ordered.
var errTooSmall = errors.New("the disk is too small")

// need is what a tree's files take, with what the file system itself takes for them.
func need(s image.Size) int64 { return s.Bytes + s.Inodes*inodeBytes + journalBytes }

// diskBytes is the size of the disk: as ordered, or what the files need and a half more, in whole MiB.
func (o Order) diskBytes(s image.Size) (int64, error) {
	if o.DiskBytes == 0 {
		n := max(leastDisk, need(s)*3/2+o.MoreBytes)
		return (n + mib - 1) / mib * mib, nil
	}
	if s.Bytes+s.Inodes*inodeBytes > o.DiskBytes {
		return 0, fmt.Errorf("%w: the files need %d MiB, it has %d", errTooSmall, need(s)/mib, o.DiskBytes/mib)
	}
	return o.DiskBytes, nil
}

// makeImage makes an ext4 image of the tree: with a journal, without blocks reserved for root, and with nothing left for the guest's kernel to
// initialise in the background, which each clone would do again.
func (b *build) makeImage(ctx context.Context) error {
	b.progress("making the ext4 image")
	size, err := b.measure()
	if err != nil {
		return err
	}
	disk, err := b.order.diskBytes(size)
	if err != nil {
		return err
	}
	b.result.DiskBytes = disk
	f, err := os.OpenFile(b.disk, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(disk); err != nil {
		return err
	}
	top, err := statRoot(b.root)
	if err != nil {
		return err
	}
	if err := run(exec.CommandContext(ctx, "mke2fs", append(b.formatArgs(disk, size, top), b.disk)...)); err != nil {
		return err
	}
	return b.setRootMode(ctx, top)
}

func statRoot(root string) (*syscall.Stat_t, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(root, &st); err != nil {
		return nil, fmt.Errorf("look at the tree: %w", err)
	}
	return &st, nil
}

// setRootMode gives the root directory the tree's mode, which mke2fs doesn't.
func (b *build) setRootMode(ctx context.Context, top *syscall.Stat_t) error {
	if top.Mode == usualRoot {
		return nil
	}
	return run(exec.CommandContext(ctx, "debugfs", "-w", "-R", fmt.Sprintf("set_inode_field <2> mode 0%o", top.Mode), b.disk))
}

// usualRoot is the mode that mke2fs gives the root directory.
const usualRoot = syscall.S_IFDIR | 0o755

func (b *build) measure() (image.Size, error) {
	tree, err := image.OpenTree(b.root, image.DefaultLimits)
	if err != nil {
		return image.Size{}, err
	}
	defer tree.Close()
	return tree.Measure()
}

func (b *build) formatArgs(disk int64, s image.Size, top *syscall.Stat_t) []string {
	label := b.order.Label
	args := []string{"-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L", label[:min(len(label), labelBytes)], "-d", b.root,
		"-E", fmt.Sprintf("lazy_itable_init=0,lazy_journal_init=0,nodiscard,root_owner=%d:%d", top.Uid, top.Gid)}
	if disk >= gib {
		args = append(args, "-J", "size="+strconv.Itoa(journalBytes/mib)) // the default is four times that, all of it copied by a snapshot's first writes
	}
	if n := s.Inodes*3/2 + spareInodes; n > disk/bytesPerInode {
		args = append(args, "-N", strconv.FormatInt(n, 10))
	}
	return args
}
