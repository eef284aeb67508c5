package template

import (
	"context"
	"errors"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

// source finds out what the source is today: the key says all that its disk depends on. An image's reference is pinned to its digest.
func (b *builder) source(ctx context.Context) (string, error) {
	o := b.order
	switch {
	case o.Recipe != "":
		r, err := rootfs.Find(o.Recipe)
		if err != nil {
			return "", err
		}
		return chain("recipe", r.Digest(), b.size.DiskBytes), nil
	case o.Debian != nil:
		return chain("debian", rootfs.DebianDigest(*o.Debian), b.size.DiskBytes, b.more()), nil
	case o.Image != "":
		if err := b.pin(ctx); err != nil {
			return "", err
		}
		return chain("image", b.order.Image, b.size.DiskBytes, b.more()), nil
	case o.Base != "":
		s, d, give, err := b.borrow(o.Base)
		if err != nil {
			return "", err
		}
		defer give()
		b.state = d
		return chain("template", s.DiskDigest, b.size.DiskBytes), nil
	}
	f, err := b.use(o.upload())
	if err != nil {
		return "", err
	}
	return chain(o.field(), f.SHA256, b.size.DiskBytes, b.more()), nil
}

func (o Order) upload() string {
	if o.Archive != "" {
		return o.Archive
	}
	return o.Rootfs
}

// more is the room that steps get on a disk without an ordered size.
func (b *builder) more() int64 {
	for _, s := range b.order.Steps {
		if s.Set == nil {
			return moreBytes
		}
	}
	return 0
}

// pin asks the registry what the image is now.
func (b *builder) pin(ctx context.Context) error {
	b.said("looking for the image " + b.order.Image)
	r, err := b.cfg.Helper.Resolve(ctx, b.helperOrder())
	if err != nil {
		return b.withoutLogin(b.blame(err))
	}
	b.order.Image = r.Reference
	b.said("it is " + r.Reference)
	return nil
}

// withoutLogin says why a registry refuses what it gave to the first build.
func (b *builder) withoutLogin(err error) error {
	var e *space.Error
	if !b.order.HadLogin || b.order.Login != nil || !errors.As(err, &e) || e.Code != space.CodeInvalid {
		return err
	}
	return space.FieldErrorf("registry_auth", "the image is needed once more, and the login that it was built with is kept only until a build has ended: "+
		"build the template anew with a login (%s)", e.Message)
}

// helperOrder is what the helper is told.
func (b *builder) helperOrder() rootfs.Order {
	o := rootfs.Order{
		Dir: b.dir, Label: b.order.Recipe, Recipe: b.order.Recipe, Image: b.order.Image, DiskBytes: b.size.DiskBytes, MoreBytes: b.more(),
		Layers: b.cfg.Blobs, Insecure: b.cfg.Insecure, Allowed: b.cfg.Allowed,
	}
	o.Login = b.order.Login
	if b.order.Debian != nil {
		o.Debian = *b.order.Debian
	}
	return o
}

// makeSource makes the first disk and keeps it.
func (b *builder) makeSource(ctx context.Context, key string) error {
	if b.order.Base != "" {
		s, _, give, err := b.borrow(b.order.Base)
		if err != nil {
			return err
		}
		defer give()
		b.said("beginning with the disk of template " + b.order.Base)
		return b.cfg.Clone(s.Disk, b.disk(), 0)
	}
	o, err := b.withUpload(b.helperOrder())
	if err != nil {
		return err
	}
	r, err := b.cfg.Helper.Make(ctx, o, b.said)
	if err != nil {
		return b.blame(err)
	}
	b.config = r.Config
	return b.layers.put(layer{Key: key, Config: r.Config}, b.disk())
}

// withUpload adds the upload that the source is, if it's one.
func (b *builder) withUpload(o rootfs.Order) (rootfs.Order, error) {
	id := b.order.upload()
	if id == "" {
		return o, nil
	}
	f, err := b.use(id)
	if err != nil {
		return o, err
	}
	if b.order.Archive != "" {
		o.Archive = f.Path
	} else {
		o.Rootfs = f.Path
	}
	return o, nil
}

// blame says whose fault an error is that the helper says nothing of: with packages it's the archive's word that there is no such one, with images
// that the registry doesn't answer.
func (b *builder) blame(err error) error {
	var e *space.Error
	switch {
	case errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case b.order.Debian != nil:
		return &space.Error{Code: space.CodeInvalid, Field: "debian", Message: err.Error(), Err: err}
	case b.order.Image != "":
		return &space.Error{Code: space.CodeUnavailable, Field: "image", Message: err.Error(), Err: err}
	}
	return err
}
