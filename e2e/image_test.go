//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/host/image/imagetest"
)

// smallImage is an image of a static busybox and two of its names: no passwd, no certificates, no mount points; and of what layers above it add.
func smallImage(t *testing.T, above ...[]byte) v1.Image {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	busybox, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	layer := entries(t, tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o4755, Size: int64(len(busybox))},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/sh", Linkname: "busybox"}, tar.Header{Typeflag: tar.TypeLink, Name: "bin/stat", Linkname: "bin/busybox"})
	return imagetest.Image(t, v1.Config{Env: []string{"FROM=image"}, User: "4711", WorkingDir: "/srv"}, append([][]byte{layer(busybox)}, above...)...)
}

// entries returns what writes an archive of some entries; the first has content.
func entries(t *testing.T, headers ...tar.Header) func(content []byte) []byte {
	t.Helper()
	return func(content []byte) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for n, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				w.Write(content)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
}

// saved uploads an image as `docker save | gzip` writes it.
func saved(t *testing.T, i v1.Image) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(imagetest.Save(t, i)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return uploaded(t, b.Bytes())
}

func uploaded(t *testing.T, b []byte) string {
	t.Helper()
	id, err := platform.client.Upload(t.Context(), bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestTemplateFromImage makes sandboxes of an image that was pulled, and of one that was brought.
func TestTemplateFromImage(t *testing.T) {
	i := smallImage(t)
	for n, in := range map[string]client.TemplateCreate{
		"pulled":  {Image: ptr(imagetest.Push(t, i))},
		"brought": {Archive: ptr(saved(t, i))},
	} {
		t.Run(n, func(t *testing.T) {
			in.Name, in.DiskMb = &n, ptr(96)
			in.Env = &gen.Environment{"ABOVE": "it"}
			wantReady(t, buildTemplate(t, in))
			look := client.SessionCreate{Shell: ptr("busybox id -u; pwd; echo $FROM $ABOVE; stat -c %a:%h /bin/busybox; stat -c %a /tmp")}
			runIn(t, create(t, n), look).want(t, 0, "4711\n/srv\nimage it\n4755:2\n1777\n", "")
		})
	}
}

// TestTemplateOf300Layers has each layer write the same file anew, add one, and every other one take away what the one below it has added.
func TestTemplateOf300Layers(t *testing.T) {
	const layers = 300
	var above [][]byte
	for n := 1; n < layers; n++ {
		text := fmt.Sprint(n)
		headers := []tar.Header{{Typeflag: tar.TypeReg, Name: "top", Mode: 0o644, Size: int64(len(text))}, {Typeflag: tar.TypeReg, Name: "layers/" + text, Mode: 0o644}}
		if n%2 == 0 {
			headers = append(headers, tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("layers/.wh.%d", n-1)})
		}
		above = append(above, entries(t, headers...)([]byte(text)))
	}
	i := smallImage(t, above...)
	if have, err := i.Layers(); err != nil || len(have) != layers {
		t.Fatalf("%d layers, want %d: %v", len(have), layers, err)
	}
	wantReady(t, buildTemplate(t, client.TemplateCreate{Name: ptr("layers"), Image: ptr(imagetest.Push(t, i)), DiskMb: ptr(96)}))
	look := client.SessionCreate{Shell: ptr("busybox cat /top; echo; busybox ls /layers | busybox wc -l; busybox ls -d /layers/1 /layers/2 /layers/297 /layers/299 2>/dev/null")}
	runIn(t, create(t, "layers"), look).want(t, 1, "299\n150\n/layers/2\n/layers/299\n", "")
}

// TestHostileArchiveIsRefused names the entry, and leaves nothing.
func TestHostileArchiveIsRefused(t *testing.T) {
	for n, h := range map[string]tar.Header{
		"climbs":   {Typeflag: tar.TypeReg, Name: "../../etc/cron.d/evil", Mode: 0o644},
		"links":    {Typeflag: tar.TypeSymlink, Name: "etc/shadow", Linkname: "../../../etc/shadow"},
		"hardlink": {Typeflag: tar.TypeLink, Name: "passwd", Linkname: "../../etc/passwd"},
	} {
		t.Run(n, func(t *testing.T) {
			op := buildTemplate(t, client.TemplateCreate{Name: &n, Rootfs: ptr(uploaded(t, entries(t, h)(nil)))})
			if op.Status != gen.OperationStatusFailed || *op.Template.FailedStep != 0 || op.Error.Code != "invalid_request" || !strings.Contains(*op.Error.Detail, h.Name) {
				t.Errorf("%+v, %+v", op.Template, op.Error)
			}
		})
	}
}
