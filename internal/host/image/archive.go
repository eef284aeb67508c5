package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The files in an archive that say what else is in it.
const (
	layoutIndex    = "index.json"
	dockerManifest = "manifest.json"
)

// Open reads an image from a file (an OCI layout or what `docker save` wrote, as a tar archive, compressed or not) or from a directory that
// holds an OCI layout. scratch is a directory for a decompressed copy. The image can be applied until close is called.
func Open(ctx context.Context, name, scratch string, limits Limits) (i *Image, closeImage func(), err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, fmt.Errorf("open the image: %w", err)
	}
	if info.IsDir() {
		root, err := os.OpenRoot(name)
		if err != nil {
			return nil, nil, fmt.Errorf("open the image: %w", err)
		}
		return opened(ctx, directory{root}, func() { root.Close() })
	}
	f, err := plainFile(ctx, name, scratch, limits)
	if err != nil {
		return nil, nil, fmt.Errorf("open the image: %w", err)
	}
	a, err := openArchive(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("open the image: %w", err)
	}
	return opened(ctx, a, func() { f.Close() })
}

func opened(ctx context.Context, f files, closeFiles func()) (*Image, func(), error) {
	i, err := imageIn(ctx, f)
	if err != nil {
		closeFiles()
		return nil, nil, fmt.Errorf("open the image: %w", err)
	}
	return i, closeFiles, nil
}

// plainFile opens a file, or a decompressed copy of it that has no name.
func plainFile(ctx context.Context, name, scratch string, limits Limits) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(zstdMagic))
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, err
	}
	if head = head[:n]; !bytes.HasPrefix(head, gzipMagic) && !bytes.Equal(head, zstdMagic) {
		return f, nil
	}
	defer f.Close()
	return decompressed(ctx, f, scratch, limits)
}

func decompressed(ctx context.Context, f *os.File, scratch string, limits Limits) (*os.File, error) {
	packed, err := Decompress(f)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	out, err := os.CreateTemp(scratch, "archive-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(out.Name()); err == nil {
		err = copyBounded(ctx, out, packed, limits.Bytes)
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

func copyBounded(ctx context.Context, to io.Writer, from io.Reader, limit int64) error {
	n, err := io.Copy(to, &contextReader{ctx, io.LimitReader(from, limit+1)})
	if err == nil && n > limit {
		err = &Error{Err: fmt.Errorf("%w: the decompressed archive has more than %d bytes", ErrTooLarge, limit)}
	}
	return err
}

// contextReader fails when its context has ended.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

func (r *contextReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(b)
}

// imageIn reads the one image that some files hold. What is a layout and a saved image at once is a layout.
func imageIn(ctx context.Context, f files) (*Image, error) {
	text, ok, err := read(f, layoutIndex)
	if err != nil {
		return nil, err
	}
	if ok {
		index, err := v1.ParseIndexManifest(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrMalformed, layoutIndex, err)
		}
		return layoutBlobs(f).choose(ctx, index, 1)
	}
	text, ok, err = read(f, dockerManifest)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: the archive has neither %s nor %s", ErrMalformed, layoutIndex, dockerManifest)
	}
	return savedImage(f, text)
}

// layoutBlobs are the blobs of an OCI layout.
func layoutBlobs(f files) blobs {
	return func(_ context.Context, h v1.Hash) (io.ReadCloser, error) {
		if h.Algorithm != "sha256" || len(h.Hex) != 64 {
			return nil, fmt.Errorf("%w: digest %q", ErrMalformed, clip(h.String()))
		}
		return f.open("blobs/sha256/" + h.Hex)
	}
}

// saved is an entry of what `docker save` lists.
type saved struct {
	Config string
	Layers []string
}

// savedImage reads what `docker save` wrote.
func savedImage(f files, list []byte) (*Image, error) {
	var images []saved
	if err := json.Unmarshal(list, &images); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrMalformed, dockerManifest, err)
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("%w: the archive holds %d images; save one", ErrMalformed, len(images))
	}
	text, ok, err := read(f, images[0].Config)
	if err == nil && !ok {
		err = fmt.Errorf("%q: %w", clip(images[0].Config), fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: the configuration: %w", ErrMalformed, err)
	}
	i := &Image{}
	if i.Config, err = configOf(config); err != nil {
		return nil, err
	}
	if err := checkLayers(len(images[0].Layers), len(config.RootFS.DiffIDs)); err != nil {
		return nil, err
	}
	for n, name := range images[0].Layers {
		i.layers = append(i.layers, source{diffID: config.RootFS.DiffIDs[n], open: func(context.Context) (io.ReadCloser, error) { return f.open(name) }})
	}
	return i, nil
}
