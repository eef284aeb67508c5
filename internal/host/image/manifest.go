package image

import (
	"bytes"
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxDocument bounds a manifest, an index or a configuration, in bytes.
const maxDocument = 4 << 20

// blobs finds a blob by its digest.
type blobs func(ctx context.Context, h v1.Hash) (io.ReadCloser, error)

// document reads a small blob whole and compares it with its digest.
func (b blobs) document(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	if d.Size > maxDocument {
		return nil, tooMany("bytes of a manifest", d.Size, maxDocument)
	}
	r, err := b(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := readDocument(r)
	if err != nil {
		return nil, err
	}
	sum, _, err := v1.SHA256(bytes.NewReader(text))
	if err == nil && sum != d.Digest {
		err = fmt.Errorf("%w: a manifest is %s, want %s", ErrDigest, sum, d.Digest)
	}
	return text, err
}

func readDocument(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = tooMany("bytes of a manifest", int64(len(text)), maxDocument)
	}
	return text, err
}

// image reads an image by its manifest's descriptor.
func (b blobs) image(ctx context.Context, d v1.Descriptor) (*Image, error) {
	text, err := b.document(ctx, d)
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: the manifest: %w", ErrMalformed, err)
	}
	text, err = b.document(ctx, m.Config)
	if err != nil {
		return nil, err
	}
	f, err := v1.ParseConfigFile(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: the configuration: %w", ErrMalformed, err)
	}
	return b.assemble(m.Layers, f)
}

// assemble puts an image together and checks that its two lists of layers agree.
func (b blobs) assemble(layers []v1.Descriptor, f *v1.ConfigFile) (*Image, error) {
	c, err := configOf(f)
	if err != nil {
		return nil, err
	}
	if err := checkLayers(len(layers), len(f.RootFS.DiffIDs)); err != nil {
		return nil, err
	}
	i := &Image{Config: c}
	for n, l := range layers {
		i.layers = append(i.layers, source{digest: l.Digest, diffID: f.RootFS.DiffIDs[n], open: func(ctx context.Context) (io.ReadCloser, error) {
			return b(ctx, l.Digest)
		}})
	}
	return i, nil
}

func checkLayers(n, diffIDs int) error {
	switch {
	case n != diffIDs:
		return fmt.Errorf("%w: the manifest has %d layers, the configuration %d", ErrMalformed, n, diffIDs)
	case n > maxLayers:
		return tooMany("layers", int64(n), maxLayers)
	}
	return nil
}

// maxIndexes bounds how deep indexes of images may be nested.
const maxIndexes = 3

// choose finds the image for this machine in an index.
func (b blobs) choose(ctx context.Context, index *v1.IndexManifest, depth int) (*Image, error) {
	d, err := chosen(index)
	if err != nil {
		return nil, err
	}
	if !d.MediaType.IsIndex() {
		return b.image(ctx, d)
	}
	if depth >= maxIndexes {
		return nil, tooMany("indexes inside of each other", int64(depth), maxIndexes)
	}
	text, err := b.document(ctx, d)
	if err != nil {
		return nil, err
	}
	next, err := v1.ParseIndexManifest(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: the index: %w", ErrMalformed, err)
	}
	return b.choose(ctx, next, depth+1)
}

// chosen is the entry of an index that fits this machine. Where no entry names a platform, there must be only one.
func chosen(index *v1.IndexManifest) (v1.Descriptor, error) {
	var unnamed []v1.Descriptor
	for _, d := range index.Manifests {
		if !d.MediaType.IsIndex() && !d.MediaType.IsImage() {
			continue
		}
		if d.Platform == nil {
			unnamed = append(unnamed, d)
		} else if d.Platform.OS == platform.OS && d.Platform.Architecture == platform.Architecture {
			return d, nil
		}
	}
	if len(unnamed) == 1 {
		return unnamed[0], nil
	}
	return v1.Descriptor{}, fmt.Errorf("%w: of %d images none is for %s, or it isn't clear which one", ErrMalformed, len(index.Manifests), platform)
}
