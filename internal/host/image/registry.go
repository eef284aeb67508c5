package image

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// userAgent is what a registry sees.
const userAgent = "space"

// maxReference bounds a reference, in bytes.
const maxReference = 512

// A layer that breaks off is fetched again from its beginning.
const (
	fetchAttempts = 4
	fetchPause    = time.Second // before the second attempt, twice as long before each next one
)

// Login is what a registry wants to see before it gives an image: a name with its password, or a token. The zero Login is none.
type Login struct{ Username, Password, Token string }

// String keeps it out of logs.
func (Login) String() string { return "(a registry's login)" }

// GoString keeps it out of logs, too.
func (l Login) GoString() string { return l.String() }

func (l Login) authenticator() authn.Authenticator {
	if l == (Login{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{Username: l.Username, Password: l.Password, RegistryToken: l.Token})
}

// Registry finds images by their references.
type Registry struct {
	Login    Login
	Insecure []string // HOST or HOST:PORT of registries that may be spoken to without TLS, wherever they are
	Allowed  []string // HOST, HOST:PORT or network of registries that aren't on the public internet, beside the insecure ones
	Cache    Cache

	pause time.Duration // before a second attempt; 0: fetchPause
}

// CheckReference refuses what is no reference.
func CheckReference(reference string) error {
	_, err := Registry{}.parse(reference)
	return err
}

func (r Registry) parse(reference string) (name.Reference, error) {
	if len(reference) > maxReference {
		return nil, tooMany("bytes of a reference", int64(len(reference)), maxReference)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("%w: not a reference: %q", ErrMalformed, clip(reference))
	}
	if !newPolicy(r.Insecure, r.Allowed).mayBePlain(ref.Context().RegistryStr()) {
		return ref, nil
	}
	return name.ParseReference(reference, name.Insecure)
}

// Find asks a registry for the image of a reference that fits this machine. Layers are fetched when they're applied.
func (r Registry) Find(ctx context.Context, reference string) (*Image, error) {
	ref, err := r.parse(reference)
	if err != nil {
		return nil, err
	}
	p := pull{registry: r, repository: ref.Context()}
	p.puller, err = remote.NewPuller(remote.WithAuth(r.Login.authenticator()), remote.WithUserAgent(userAgent), remote.WithPlatform(platform),
		remote.WithTransport(newPolicy(r.Insecure, r.Allowed)))
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", reference, err)
	}
	i, err := p.image(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("find %s at %s: %w", reference, ref.Context().RegistryStr(), r.explain(err))
	}
	return i, nil
}

// Why a registry gave nothing, as far as whoever named it learns it.
var (
	errNoName   = errors.New("no registry has that name")
	errNoAnswer = errors.New("the registry doesn't answer in time")
	errNoWay    = errors.New("the registry can't be reached")
	errNoTrust  = errors.New("the registry's certificate isn't trusted")
)

// explain says why a registry gave nothing. Neither the addresses that its name stands for nor what is served there get through: the name is a
// user's choice, and may be one of the operator's network.
func (r Registry) explain(err error) error {
	var answer *transport.Error
	var name *net.DNSError
	var way net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &answer):
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			if r.Login != (Login{}) {
				return ErrLogin
			}
			return ErrNotFound
		case http.StatusNotFound:
			return ErrNotFound
		}
		return fmt.Errorf("the registry answers with status %d", answer.StatusCode)
	case errors.Is(err, ErrAddress):
		return ErrAddress
	case errors.Is(err, errPlain):
		return errPlain
	case errors.As(err, &certificate):
		return errNoTrust
	case errors.As(err, &name) && name.IsNotFound:
		return errNoName
	case errors.As(err, &way) && way.Timeout():
		return errNoAnswer
	case errors.As(err, &way):
		return errNoWay
	}
	return err
}

// pull is one image of a registry.
type pull struct {
	registry   Registry
	repository name.Repository
	puller     *remote.Puller
	sizes      map[v1.Hash]int64
}

func (p *pull) image(ctx context.Context, ref name.Reference) (*Image, error) {
	d, err := p.puller.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	for depth := 1; d.MediaType.IsIndex(); depth++ {
		if depth > maxIndexes {
			return nil, tooMany("indexes inside of each other", int64(depth), maxIndexes)
		}
		if d, err = p.next(ctx, d); err != nil {
			return nil, err
		}
	}
	return p.read(ctx, d)
}

// next goes from an index to what fits this machine in it.
func (p *pull) next(ctx context.Context, d *remote.Descriptor) (*remote.Descriptor, error) {
	index, err := d.ImageIndex()
	if err != nil {
		return nil, err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("%w: the index: %w", ErrMalformed, err)
	}
	choice, err := chosen(m)
	if err != nil {
		return nil, err
	}
	return p.puller.Get(ctx, p.repository.Digest(choice.Digest.String()))
}

func (p *pull) read(ctx context.Context, d *remote.Descriptor) (*Image, error) {
	remoteImage, err := d.Image()
	if err != nil {
		return nil, err
	}
	m, err := remoteImage.Manifest()
	if err != nil {
		return nil, fmt.Errorf("%w: the manifest: %w", ErrMalformed, err)
	}
	if m.Config.Size > maxDocument {
		return nil, tooMany("bytes of a configuration", m.Config.Size, maxDocument)
	}
	f, err := remoteImage.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	p.sizes = map[v1.Hash]int64{}
	for _, l := range m.Layers {
		p.sizes[l.Digest] = l.Size
	}
	i, err := blobs(p.layer).assemble(m.Layers, f)
	if err != nil {
		return nil, err
	}
	i.Reference = p.repository.Digest(d.Digest.String()).String()
	return i, nil
}

// layer returns a layer's blob, from the cache if it's there: the registry has just given the image that it's of. Addresses that the manifest
// may give for it are ignored.
func (p *pull) layer(ctx context.Context, h v1.Hash) (io.ReadCloser, error) {
	f, err := p.registry.Cache.Open(p.repository.Name(), h)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	for attempt, pause := 1, cmp.Or(p.registry.pause, fetchPause); ; attempt, pause = attempt+1, 2*pause {
		f, err := p.fetch(ctx, h)
		if err == nil {
			return f, nil
		}
		if attempt == fetchAttempts || !temporary(err) {
			return nil, fmt.Errorf("fetch %s: %w", h, p.registry.explain(err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (p *pull) fetch(ctx context.Context, h v1.Hash) (*os.File, error) {
	l, err := p.puller.Layer(ctx, p.repository.Digest(h.String()))
	if err != nil {
		return nil, err
	}
	blob, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	return p.registry.Cache.Put(ctx, p.repository.Name(), h, p.sizes[h], blob)
}

// temporary tells whether another attempt may end differently: not when the registry refuses, or when there is no room.
func temporary(err error) bool {
	var refusal *transport.Error
	if errors.As(err, &refusal) {
		return refusal.Temporary()
	}
	return !errors.Is(err, ErrTooLarge) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrAddress) && !errors.Is(err, errNoSpace)
}
