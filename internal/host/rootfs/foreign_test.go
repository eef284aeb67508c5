package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/image/imagetest"
)

// archive writes a tar archive; content is only written for regular files.
func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Format = tar.FormatPAX
		content := []byte(nil)
		if h.Typeflag == tar.TypeReg {
			content = []byte("content of " + h.Name)
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const capability = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// odd is a root file system with one of everything, and without what most have.
func odd(t *testing.T) []byte {
	return archive(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o750, Uid: 3, Gid: 4},
		tar.Header{Typeflag: tar.TypeReg, Name: "bin/tool", Mode: 0o6755, Uid: 1000, Gid: 70000, PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability": capability, "SCHILY.xattr.user.note": "kept",
		}},
		tar.Header{Typeflag: tar.TypeLink, Name: "bin/again", Linkname: "bin/tool"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sh", Linkname: "/bin/tool"},
		tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o600},
	)
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// imageOf is an image of one layer.
func imageOf(t *testing.T, layer []byte) v1.Image {
	return imagetest.Image(t, v1.Config{Env: []string{"A=1"}, User: "1000", WorkingDir: "/srv/app"}, layer)
}

func saved(t *testing.T, i v1.Image) string { return write(t, imagetest.Save(t, i)) }

// onThisMachine allows the registries that serve makes.
var onThisMachine = []string{"127.0.0.1"}

// checkOdd looks at what became of odd.
func checkOdd(t *testing.T, dir string) {
	t.Helper()
	image := filepath.Join(dir, DiskName)
	if out, err := exec.Command("e2fsck", "-fn", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for command, wants := range map[string][]string{
		"stat /":                     {"Mode:  0750", "User:     3", "Group:     4"},
		"stat /bin/tool":             {"Mode:  06755", "User:  1000", "Group: 70000", "Links: 2"},
		"stat /bin/again":            {"Links: 2"},
		"cat /bin/again":             {"content of bin/tool"},
		"ea_get /bin/tool user.note": {"kept"},
		"ea_get -x /bin/tool security.capability": {"01 00 00 02"},
		"stat /sh":       {"Fast link dest: \"/bin/tool\""},
		"stat /dev/null": {"Type: character special", "01:03"},
		"stat /pipe":     {"Type: FIFO"},
		"stat /proc":     {"Mode:  0555"},
		"stat /tmp":      {"Mode:  01777"},
		"cat /etc/hosts": {"localhost"},
	} {
		got := ask(t, image, command)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", command, want, got)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestForeignSourcesBecomeFileSystems(t *testing.T) {
	i := imageOf(t, odd(t))
	for name, order := range map[string]Order{
		"rootfs":  {Rootfs: write(t, odd(t))},
		"archive": {Archive: saved(t, i)},
		"image":   {Image: imagetest.Push(t, i), Insecure: onThisMachine, Layers: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			order.Dir, order.Label = t.TempDir(), "a label that is too long"
			r, err := Self().Make(t.Context(), order, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			checkOdd(t, order.Dir)
			if r.DiskBytes != leastDisk {
				t.Errorf("the disk has %d bytes", r.DiskBytes)
			}
			if name == "rootfs" {
				return
			}
			if r.Config == nil || r.Config.User != "1000" || r.Config.Env["A"] != "1" || r.Config.WorkingDir != "/srv/app" {
				t.Errorf("the configuration is %+v", r.Config)
			}
			if got := ask(t, filepath.Join(order.Dir, DiskName), "stat /srv/app"); !strings.Contains(got, "Type: directory") {
				t.Errorf("no working directory: %s", got)
			}
		})
	}
}

// TestLoginIsSeenByTheRegistryAlone looks, while a helper pulls with a login, for it on every command line and in every environment.
func TestLoginIsSeenByTheRegistryAlone(t *testing.T) {
	const canary = "s3cret-canary-of-the-test"
	reference := imagetest.Push(t, imageOf(t, odd(t)))
	host, path, _ := strings.Cut(reference, "/")
	var asked atomic.Int32
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: host})
		r.Out.Header.Del("Authorization")
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != canary {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		for _, name := range []string{"cmdline", "environ"} {
			files, _ := filepath.Glob("/proc/[0-9]*/" + name)
			for _, f := range files {
				if b, _ := os.ReadFile(f); strings.Contains(string(b), canary) {
					t.Errorf("%s shows it: %q", f, b)
				}
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	order := Order{
		Image: strings.TrimPrefix(s.URL, "http://") + "/" + path, Dir: t.TempDir(), Insecure: onThisMachine, Layers: t.TempDir(),
		Login: &image.Login{Username: "robot", Password: canary},
	}
	if r, err := Self().Make(t.Context(), order, func(line string) {
		if strings.Contains(line, canary) {
			t.Errorf("the build's log has it: %s", line)
		}
	}); err != nil || r.Config == nil || asked.Load() == 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	order.Dir, order.Login = t.TempDir(), &image.Login{Username: "robot", Password: canary + "-wrong"}
	if _, err := Self().Make(t.Context(), order, func(string) {}); space.CodeOf(err) != space.CodeInvalid || strings.Contains(err.Error(), canary) {
		t.Errorf("with a wrong one: %v", err)
	}
}

func TestResolvePinsAReference(t *testing.T) {
	i := imageOf(t, odd(t))
	order := Order{Image: imagetest.Push(t, i), Dir: t.TempDir(), Insecure: onThisMachine, Layers: t.TempDir()}
	r, err := Self().Resolve(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := i.Digest()
	if err != nil || !strings.HasSuffix(r.Reference, "@"+digest.String()) || r.Config == nil {
		t.Errorf("got %+v, %v", r, err)
	}
	if left, err := os.ReadDir(order.Dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestDiskIsAsLargeAsOrdered(t *testing.T) {
	order := Order{Rootfs: write(t, odd(t)), Dir: t.TempDir(), DiskBytes: 48 * mib}
	r, err := Self().Make(t.Context(), order, func(string) {})
	info, serr := os.Stat(filepath.Join(order.Dir, DiskName))
	if err != nil || serr != nil || r.DiskBytes != 48*mib || info.Size() != 48*mib {
		t.Errorf("got %+v, %v, %v", r, err, serr)
	}
}

func TestWrongSourcesNameTheirField(t *testing.T) {
	big := append(archive(t), make([]byte, 0)...)
	for name, test := range map[string]struct {
		order       Order
		field, text string
	}{
		"path that climbs": {Order{Rootfs: write(t, archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "../evil"}))}, "rootfs", "../evil"},
		"link that climbs": {Order{Archive: saved(t, imageOf(t, archive(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "../../x"})))}, "archive", `"l"`},
		"no archive":       {Order{Archive: write(t, big)}, "archive", "neither"},
		"no image":         {Order{Image: "127.0.0.1:1/none:1", Insecure: onThisMachine, Layers: t.TempDir()}, "", "reached"},
		"unknown image":    {Order{Image: imagetest.Push(t, imageOf(t, odd(t))) + "2", Insecure: onThisMachine, Layers: t.TempDir()}, "image", "no such image"},
		"small disk":       {Order{Rootfs: write(t, archive(t, large()...)), DiskBytes: 16 * mib}, "rootfs", "16"},
		"proc is a file":   {Order{Rootfs: write(t, archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "proc"}))}, "rootfs", "proc"},
	} {
		t.Run(name, func(t *testing.T) {
			test.order.Dir = t.TempDir()
			_, err := Self().Make(t.Context(), test.order, func(string) {})
			var e *space.Error
			if test.field != "" && (!errors.As(err, &e) || e.Field != test.field) || err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want field %q and %q", err, test.field, test.text)
			}
		})
	}
}

// large are more directories than a small disk has room for.
func large() []tar.Header {
	var out []tar.Header
	for n := range 4500 {
		out = append(out, tar.Header{Typeflag: tar.TypeDir, Name: "d/" + strings.Repeat("x", n%200+1) + string(rune('a'+n/200)), Mode: 0o755})
	}
	return out
}

// TestHelperIsShutIn looks at a helper from outside while it works.
func TestHelperIsShutIn(t *testing.T) {
	order := Order{Rootfs: write(t, odd(t)), Dir: t.TempDir()}
	seen := false
	_, err := Self().Make(t.Context(), order, func(line string) {
		if seen || !strings.Contains(line, "unpacking") {
			return
		}
		seen = true
		status, root, net := lookAtChild(t)
		if !strings.Contains(status, "CapBnd:\t000000008800001b") || !strings.Contains(status, "NoNewPrivs:\t1") { // the six of keptCapabilities
			t.Errorf("its status: %s", status)
		}
		for _, name := range root {
			switch name {
			case "usr", "lib", "lib32", "lib64", "bin", "sbin", "etc", "proc", "dev", "tmp", "work", "source":
			default:
				t.Errorf("it sees /%s", name)
			}
		}
		if own, err := os.Readlink("/proc/self/ns/net"); err != nil || own == net {
			t.Errorf("it's in the network %s, %v", net, err)
		}
	})
	if err != nil || !seen {
		t.Errorf("seen: %v, %v", seen, err)
	}
}

// lookAtChild returns the status, the root directory's names and the network of this process's child.
func lookAtChild(t *testing.T) (status string, root []string, net string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		b, err := os.ReadFile(path)
		if err != nil || len(strings.Fields(string(b))) == 0 {
			continue
		}
		proc := "/proc/" + strings.Fields(string(b))[0]
		text, err := os.ReadFile(proc + "/status")
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(proc + "/root")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			root = append(root, e.Name())
		}
		if net, err = os.Readlink(proc + "/ns/net"); err != nil {
			t.Fatal(err)
		}
		return string(text), root, net
	}
	t.Fatal("no child")
	return "", nil, ""
}
