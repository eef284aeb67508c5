package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// build makes an image of layers for this machine.
func build(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	var all []v1.Layer
	for _, b := range layers {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	i, err := mutate.AppendLayers(empty.Image, all...)
	if err != nil {
		t.Fatal(err)
	}
	i = configured(t, i, func(f *v1.ConfigFile) {
		f.Config = v1.Config{
			Env: []string{"PATH=/bin", "A=b=c", "nothing", "=x"}, User: "app:staff", WorkingDir: "/srv/app", Entrypoint: []string{"/run"}, Cmd: []string{"now"},
		}
	})
	config, err := i.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return &fixed{Image: i, layers: all, config: config}
}

func configured(t testing.TB, i v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	f, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.OS, f.Architecture = platform.OS, platform.Architecture
	change(f)
	if i, err = mutate.ConfigFile(i, f); err != nil {
		t.Fatal(err)
	}
	return i
}

// two is an image of two layers, and what they make together.
func two(t testing.TB) (v1.Image, map[string]string) {
	return build(t, pack(t, file("a/b", "1"), file("c", "1")), pack(t, file("a/.wh.b", ""), file("c", "2"), hardlink("d", "c"))),
		map[string]string{"a": "dir", "c": "2", "d": "2"}
}

var wantConfig = Config{
	Env: map[string]string{"PATH": "/bin", "A": "b=c"}, User: "app", WorkingDir: "/srv/app", Entrypoint: []string{"/run"}, Cmd: []string{"now"},
}

// checkImage applies an image and compares the tree.
func checkImage(t *testing.T, i *Image, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(wantConfig, i.Config); diff != "" {
		t.Error(diff)
	}
	tree, root := newTree(t, DefaultLimits)
	if err := i.Apply(t.Context(), tree, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, listing(t, root)); diff != "" {
		t.Error(diff)
	}
}

// writeLayout writes an OCI layout with an index of the images given, each with its platform.
func writeLayout(t testing.TB, images map[string]v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for arch, i := range images {
		var options []layout.Option
		if arch != "" {
			options = append(options, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		}
		if err := l.AppendImage(i, options...); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tarOf archives a directory.
func tarOf(t testing.TB, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func save(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string) (*Image, error) {
	t.Helper()
	i, closeImage, err := Open(t.Context(), path, t.TempDir(), DefaultLimits)
	if err == nil {
		t.Cleanup(closeImage)
	}
	return i, err
}

// fixed is an image whose layers and configuration are known. One of package mutate does that anew whenever it's asked, which for 300 layers is
// 300 configurations of 300 layers each.
type fixed struct {
	v1.Image
	layers []v1.Layer
	config v1.Hash
}

func (f *fixed) Layers() ([]v1.Layer, error)  { return f.layers, nil }
func (f *fixed) ConfigName() (v1.Hash, error) { return f.config, nil }

func dockerSave(t testing.TB, images ...v1.Image) []byte {
	t.Helper()
	all := map[name.Reference]v1.Image{}
	for n, i := range images {
		ref, err := name.NewTag(fmt.Sprintf("test:%d", n))
		if err != nil {
			t.Fatal(err)
		}
		all[ref] = i
	}
	var b bytes.Buffer
	if err := tarball.MultiRefWrite(all, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestImageInFiles(t *testing.T) {
	i, want := two(t)
	other := configured(t, build(t, pack(t, file("other", "1"))), func(f *v1.ConfigFile) { f.Architecture = "s390x" })
	both := writeLayout(t, map[string]v1.Image{platform.Architecture: i, "s390x": other})
	for name, path := range map[string]string{
		"a layout's directory":    both,
		"a layout":                save(t, tarOf(t, both)),
		"a gzipped layout":        save(t, gzipped(t, tarOf(t, both))),
		"a layout of one image":   save(t, tarOf(t, writeLayout(t, map[string]v1.Image{"": i}))),
		"a saved image":           save(t, dockerSave(t, i)),
		"a gzipped saved image":   save(t, gzipped(t, dockerSave(t, i))),
		"a zstd saved image":      save(t, zstded(t, dockerSave(t, i))),
		"an index in the layout":  save(t, tarOf(t, nested(t, i, other))),
		"a layout of zstd layers": save(t, tarOf(t, writeLayout(t, map[string]v1.Image{"": zstdLayers(t)}))),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := open(t, path)
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, got, want)
		})
	}
}

// nested is a layout whose index has an index.
func nested(t testing.TB, images ...v1.Image) string {
	t.Helper()
	inner := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		f, err := i.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		inner = mutate.AppendManifests(inner, mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: f.Architecture}}})
	}
	dir := t.TempDir()
	l, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = l.AppendIndex(inner)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// zstdLayers is the image of two with layers that zstd compressed.
func zstdLayers(t testing.TB) v1.Image {
	t.Helper()
	i := empty.Image
	for _, b := range [][]byte{pack(t, file("a/b", "1"), file("c", "1")), pack(t, file("a/.wh.b", ""), file("c", "2"), hardlink("d", "c"))} {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(zstded(t, b))), nil },
			tarball.WithMediaType(types.OCILayerZStd))
		if err == nil {
			i, err = mutate.Append(i, mutate.Addendum{Layer: l, MediaType: types.OCILayerZStd})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := build(t).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return configured(t, i, func(c *v1.ConfigFile) { c.Config = f.Config })
}

func TestArchivesThatHoldNoImage(t *testing.T) {
	i, _ := two(t)
	foreign := configured(t, i, func(f *v1.ConfigFile) { f.OS = "windows" })
	for name, test := range map[string]struct {
		archive []byte
		why     error
		text    string
	}{
		"nothing":               {pack(t), ErrMalformed, "neither"},
		"another system's":      {dockerSave(t, foreign), ErrMalformed, "windows"},
		"two images":            {dockerSave(t, i, foreign), ErrMalformed, "holds 2"},
		"a layout of others":    {tarOf(t, writeLayout(t, map[string]v1.Image{"s390x": i, "riscv64": foreign})), ErrMalformed, "none is for"},
		"no JSON":               {pack(t, file("manifest.json", "{")), ErrMalformed, "manifest.json"},
		"no list":               {pack(t, file("index.json", "[]")), ErrMalformed, "index.json"},
		"a name that climbs":    {pack(t, file("../manifest.json", "[]")), ErrEscape, "../manifest.json"},
		"a link that climbs":    {pack(t, symlink("manifest.json", "../x")), ErrEscape, "manifest.json"},
		"an absolute link":      {pack(t, symlink("manifest.json", "/etc/passwd")), ErrEscape, "manifest.json"},
		"a loop of links":       {pack(t, symlink("manifest.json", "b"), symlink("b", "manifest.json")), ErrMalformed, "neither"},
		"too long a manifest":   {pack(t, file("manifest.json", strings.Repeat(" ", maxDocument+1))), ErrTooLarge, "manifest"},
		"too many files":        {pack(t, manyFiles()...), ErrTooLarge, "files"},
		"a missing blob":        {pack(t, file("manifest.json", `[{"Config":"c.json","Layers":[]}]`)), os.ErrNotExist, "c.json"},
		"layers without a file": {pack(t, file("manifest.json", `[{"Config":"c.json","Layers":["a"]}]`), file("c.json", "{}")), ErrMalformed, "1 layers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, save(t, test.archive))
			if !errors.Is(err, test.why) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %q: %v", err, test.text, test.why)
			}
		})
	}
}

func manyFiles() []item {
	var out []item
	for n := range maxArchiveFiles + 1 {
		out = append(out, file(fmt.Sprint(n), ""))
	}
	return out
}

func TestWrongDigestsAreRefused(t *testing.T) {
	i, _ := two(t)
	dir := writeLayout(t, map[string]v1.Image{"": i})
	layers, err := i.Layers()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := layers[1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "blobs/sha256", blob.Hex), gzipped(t, pack(t, file("c", "other"))), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := configured(t, i, func(f *v1.ConfigFile) {
		f.RootFS.DiffIDs[0], f.RootFS.DiffIDs[1] = f.RootFS.DiffIDs[1], f.RootFS.DiffIDs[0]
	})
	for name, path := range map[string]string{"of a blob": dir, "of a layer's content": save(t, dockerSave(t, wrong))} {
		t.Run(name, func(t *testing.T) {
			got, err := open(t, path)
			if err != nil {
				t.Fatal(err)
			}
			tree, _ := newTree(t, DefaultLimits)
			if err := got.Apply(t.Context(), tree, func(string) {}); !errors.Is(err, ErrDigest) {
				t.Errorf("got %v, want %v", err, ErrDigest)
			}
		})
	}
}

// serve serves an image and returns its reference, and a place for a handler that is asked first.
func serve(t testing.TB, i v1.Image) (string, *atomic.Pointer[http.HandlerFunc]) {
	t.Helper()
	var first atomic.Pointer[http.HandlerFunc]
	next := registry.New(registry.Logger(discardLog()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := first.Load(); h != nil {
			(*h)(w, r)
			if w.Header().Get("Answered") != "" {
				return
			}
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/some/image:tag"
	ref, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, i); err != nil {
		t.Fatal(err)
	}
	return reference, &first
}

func testRegistry(t testing.TB) Registry {
	return Registry{Insecure: []string{"127.0.0.1"}, Cache: Cache{Dir: t.TempDir(), Limit: 1 << 20}, pause: time.Millisecond}
}

func TestImageFromRegistry(t *testing.T) {
	i, want := two(t)
	reference, first := serve(t, i)
	r := testRegistry(t)
	got, err := r.Find(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := i.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if repository, _, _ := strings.Cut(reference, ":tag"); got.Reference != repository+"@"+digest.String() {
		t.Errorf("its reference is %s", got.Reference)
	}
	checkImage(t, got, want)
	noBlobs := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") && r.Header.Get("Range") == "" && !isConfig(i, r) {
			t.Errorf("%s is asked for again", r.URL)
		}
	})
	first.Store(&noBlobs)
	if got, err = r.Find(t.Context(), got.Reference); err != nil {
		t.Fatal(err)
	}
	checkImage(t, got, want)
}

func isConfig(i v1.Image, r *http.Request) bool {
	h, err := i.ConfigName()
	return err == nil && strings.HasSuffix(r.URL.Path, h.String())
}

func TestRegistryThatBreaksOff(t *testing.T) {
	i, want := two(t)
	reference, first := serve(t, i)
	var left atomic.Int32
	left.Store(2)
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") && !isConfig(i, r) && left.Add(-1) >= 0 {
			w.Header().Set("Answered", "cut")
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("cut"))
		}
	})
	first.Store(&cut)
	got, err := testRegistry(t).Find(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, got, want)
}

func TestRegistryThatLies(t *testing.T) {
	i, _ := two(t)
	reference, first := serve(t, i)
	lie := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") && !isConfig(i, r) {
			layers, _ := i.Layers()
			size, _ := layers[0].Size()
			w.Header().Set("Answered", "lie")
			w.Write(bytes.Repeat([]byte("x"), int(size)))
		}
	})
	first.Store(&lie)
	r := testRegistry(t)
	got, err := r.Find(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	tree, _ := newTree(t, DefaultLimits)
	if err := got.Apply(t.Context(), tree, func(string) {}); !errors.Is(err, ErrDigest) {
		t.Errorf("got %v, want %v", err, ErrDigest)
	}
	if entries, err := os.ReadDir(r.Cache.Dir); err != nil || len(entries) > 0 {
		t.Errorf("the cache has %v, %v", entries, err)
	}
}

func TestReferencesThatFindNothing(t *testing.T) {
	i, _ := two(t)
	reference, _ := serve(t, i)
	host, _, _ := strings.Cut(reference, "/")
	redirect := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/v2/", http.StatusFound))
	t.Cleanup(redirect.Close)
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"errors":[{"code":"X","message":"canary"}]}`, http.StatusTeapot)
	}))
	t.Cleanup(secret.Close)
	for name, test := range map[string]struct{ reference, text string }{
		"none":                   {"", "not a reference"},
		"with spaces":            {"a b", "not a reference"},
		"long":                   {strings.Repeat("a", maxReference+1), "limit"},
		"an unknown image":       {host + "/none:1", "at " + host + ": the registry has no such image"},
		"a redirect to a secret": {strings.TrimPrefix(redirect.URL, "http://") + "/a:1", "TLS"},
		"a link-local address":   {"169.254.169.254/a:1", "none of the public internet"},
		"a closed port":          {"127.0.0.1:1/a:1", "can't be reached"},
		"something else":         {strings.TrimPrefix(secret.URL, "http://") + "/a:1", "status 418"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := testRegistry(t).Find(ctx, test.reference)
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %q", err, test.text)
			} else if told := regexp.MustCompile(`canary|dial|Get "|lookup`).FindString(err.Error()); told != "" {
				t.Errorf("it tells %q: %v", told, err)
			}
		})
	}
}

// TestAddressesOfRegistries holds each address that a name may turn out to have against what the operator allows.
func TestAddressesOfRegistries(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Fatal(own, err)
	}
	for _, test := range []struct {
		host, address string
		allowed       []string
		ok            bool
	}{
		{"registry.example:443", "1.1.1.1", nil, true},
		{"registry.example:443", "127.0.0.1", nil, false},
		{"registry.example:443", "::ffff:127.0.0.1", nil, false},
		{"registry.example:443", "64:ff9b::7f00:1", nil, false},
		{"registry.example:443", "10.0.0.1", nil, false},
		{"registry.example:443", "169.254.169.254", nil, false},
		{"registry.example:443", "fd00:ec2::254", nil, false},
		{"registry.example:443", "0.0.0.0", nil, false},
		{"registry.example:443", own[len(own)-1].(*net.IPNet).IP.String(), nil, false},
		{"localhost:5000", "127.0.0.1", nil, false},
		{"127.0.0.1:5000", "127.0.0.1", nil, false},
		{"registry.example:443", "10.0.0.1", []string{"registry.example"}, true},
		{"registry.example:443", "10.0.0.1", []string{"registry.example:443"}, true},
		{"registry.example:8443", "10.0.0.1", []string{"registry.example:443"}, false},
		{"other.example:443", "10.0.0.1", []string{"registry.example"}, false},
		{"other.example:443", "10.0.0.1", []string{"10.0.0.0/24"}, true},
		{"other.example:443", "10.0.1.1", []string{"10.0.0.0/24"}, false},
		{"[::1]:5000", "::1", []string{"::1"}, true},
		{"registry.example:443", "169.254.169.254", []string{"registry.example", "169.254.0.0/16"}, false},
	} {
		err := newPolicy(nil, test.allowed).check(test.host, netip.MustParseAddr(test.address))
		if (err == nil) != test.ok || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%s at %s with %q: %v", test.host, test.address, test.allowed, err)
		}
	}
}

// TestAllowedRegistryLeadsNowhereElse has a registry that the operator allowed send a pull to a neighbour that isn't: by a redirect, and by
// where it wants tokens to be asked for.
func TestAllowedRegistryLeadsNowhereElse(t *testing.T) {
	var reached atomic.Bool
	neighbour := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(neighbour.Close)
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": http.RedirectHandler(neighbour.URL+"/v2/", http.StatusFound).ServeHTTP,
		"realm": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+neighbour.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			allowed := httptest.NewServer(answer)
			t.Cleanup(allowed.Close)
			host := strings.TrimPrefix(allowed.URL, "http://")
			r := Registry{Insecure: []string{host}, Cache: Cache{Dir: t.TempDir(), Limit: 1 << 20}}
			if _, err := r.Find(t.Context(), host+"/a:1"); err == nil || reached.Load() {
				t.Errorf("reached %v, error %v", reached.Load(), err)
			}
		})
	}
}

// TestNameThatIsThisMachine asks for an image by a name that leads to loopback.
func TestNameThatIsThisMachine(t *testing.T) {
	var reached atomic.Bool
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			reached.Store(true)
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"localhost", "127.0.0.1", "127.1.2.3"} {
		if _, err := (Registry{}).Find(t.Context(), host+":"+port+"/a:1"); err == nil || reached.Load() {
			t.Errorf("%s: reached %v, error %v", host, reached.Load(), err)
		}
	}
}

func TestThreeHundredLayers(t *testing.T) {
	var layers [][]byte
	want := map[string]string{"d": "dir"}
	for n := range 300 {
		layers = append(layers, pack(t, file(fmt.Sprintf("d/%03d", n), "1"), file("last", fmt.Sprint(n)), file(fmt.Sprintf("d/.wh.%03d", n-150), "")))
		if n >= 150 {
			want[fmt.Sprintf("d/%03d", n)] = "1"
		}
	}
	want["last"] = "299"
	got, err := open(t, save(t, dockerSave(t, build(t, layers...))))
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, got, want)
}

func TestWhatAnImageDoesNotSay(t *testing.T) {
	i := configured(t, build(t), func(f *v1.ConfigFile) { f.Config = v1.Config{} })
	got, err := open(t, save(t, dockerSave(t, i)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Config{Env: map[string]string{}, User: "root", WorkingDir: "/"}, got.Config); diff != "" {
		t.Error(diff)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(*v1.Config){
		"directory": func(c *v1.Config) { c.WorkingDir = "../.." },
		"user":      func(c *v1.Config) { c.User = strings.Repeat("u", maxUser+1) },
		"command":   func(c *v1.Config) { c.Cmd = []string{strings.Repeat("c", maxCommand+1)} },
		"variables": func(c *v1.Config) {
			for n := range maxEnv + 1 {
				c.Env = append(c.Env, fmt.Sprintf("V%d=1", n))
			}
		},
		"bytes of variables": func(c *v1.Config) { c.Env = []string{"V=" + strings.Repeat("v", maxEnvBytes)} },
	} {
		t.Run(name, func(t *testing.T) {
			i := configured(t, build(t), func(f *v1.ConfigFile) { change(&f.Config) })
			if _, err := open(t, save(t, dockerSave(t, i))); !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrEscape) {
				t.Errorf("got %v", err)
			}
		})
	}
}
