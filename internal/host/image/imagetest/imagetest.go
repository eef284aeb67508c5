// Package imagetest makes images for tests, and serves them from a registry of the test's own or writes them as docker does. It isn't for other use.
package imagetest

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is an image for linux on amd64 of some layers, each a tar archive, the lowest first.
func Image(t testing.TB, c v1.Config, layers ...[]byte) v1.Image {
	t.Helper()
	i := empty.Image
	for _, b := range layers {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
		must(t, err)
		i, err = mutate.AppendLayers(i, l)
		must(t, err)
	}
	f, err := i.ConfigFile()
	must(t, err)
	f = f.DeepCopy()
	f.OS, f.Architecture, f.Config = "linux", "amd64", c
	i, err = mutate.ConfigFile(i, f)
	must(t, err)
	return i
}

// Push serves an image from a registry on this machine until the test ends, and returns its reference.
func Push(t testing.TB, i v1.Image) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	reference := strings.TrimPrefix(s.URL, "http://") + "/some/image:1"
	ref, err := name.ParseReference(reference)
	must(t, err)
	must(t, remote.Write(ref, i))
	return reference
}

// Save is an image as `docker save` writes it.
func Save(t testing.TB, i v1.Image) []byte {
	t.Helper()
	tag, err := name.NewTag("some/image:1")
	must(t, err)
	var b bytes.Buffer
	must(t, tarball.Write(tag, i, &b))
	return b.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
