package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Image is what to apply, and what the image says about running it.
type Image struct {
	Reference string // REGISTRY/NAME@sha256:…, of an image from a registry
	Config    Config
	layers    []source
}

// source is where a layer comes from.
type source struct {
	digest v1.Hash // of the blob; zero if nothing says so
	diffID v1.Hash // of the archive in it
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// Apply applies all layers to a tree.
func (i *Image) Apply(ctx context.Context, t *Tree, progress func(line string)) error {
	for n, s := range i.layers {
		progress(fmt.Sprintf("layer %d of %d", n+1, len(i.layers)))
		if err := t.applySource(ctx, n+1, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) applySource(ctx context.Context, number int, s source) error {
	blob, err := s.open(ctx)
	if err != nil {
		return &Error{Layer: number, Err: err}
	}
	defer blob.Close()
	return t.applyLayer(ctx, number, blob, s)
}

// applyLayer applies one blob and compares what was read with both digests.
func (t *Tree) applyLayer(ctx context.Context, number int, blob io.Reader, s source) error {
	blobSum, diffSum := sha256.New(), sha256.New()
	l := &layer{
		tree: t, root: t.rootDir(), number: number, whiteouts: true, brought: newSeen(),
		input: &counter{from: io.TeeReader(blob, blobSum)},
	}
	if err := l.applyPacked(ctx, diffSum); err != nil {
		return l.errorf("", err)
	}
	if err := check(diffSum, s.diffID, "its content"); err != nil {
		return l.errorf("", err)
	}
	if s.digest == (v1.Hash{}) {
		return nil
	}
	return l.wrap(check(blobSum, s.digest, "its blob"))
}

func (l *layer) wrap(err error) error {
	if err == nil {
		return nil
	}
	return l.errorf("", err)
}

// applyPacked decompresses and applies, and reads to the end what follows the archive.
func (l *layer) applyPacked(ctx context.Context, sum hash.Hash) error {
	packed, err := Decompress(l.input)
	if err != nil {
		return err
	}
	defer packed.Close()
	archive := io.TeeReader(stream{from: packed, tree: l.tree}, sum)
	if err := l.apply(ctx, archive); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return malformed(err)
	}
	_, err = io.Copy(io.Discard, l.input)
	return err
}

func check(sum hash.Hash, want v1.Hash, what string) error {
	got := hex.EncodeToString(sum.Sum(nil))
	if want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("%w: %s is sha256:%s, want %s", ErrDigest, what, got, want)
	}
	return nil
}

// ApplyArchive applies a plain tar archive, compressed or not, to the tree. It has no whiteouts: such names are names.
func (t *Tree) ApplyArchive(ctx context.Context, archive io.Reader) error {
	l := &layer{tree: t, root: t.rootDir(), input: &counter{from: archive}}
	return l.wrap(l.applyPacked(ctx, sha256.New()))
}

func (t *Tree) rootDir() dir {
	d := dir{fd: int(t.root.Fd())}
	if info, err := t.root.Stat(); err == nil {
		d.ino = inode(info)
	}
	return d
}
