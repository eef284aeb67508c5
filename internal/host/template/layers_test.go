package template

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/image"
)

// fewLayers holds at most three of the disks that putLayer makes.
func fewLayers(t *testing.T) *layers {
	return &layers{dir: t.TempDir(), limit: 3 * 64 << 10, clone: copyFile}
}

func putLayer(t *testing.T, l *layers, key string, age time.Duration) {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, []byte(strings.Repeat(key, 64<<10/len(key))), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.put(layer{Key: key, Config: &image.Config{User: key}}, disk); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(filepath.Join(l.dir, key), at, at); err != nil {
		t.Fatal(err)
	}
}

func (l *layers) keys(t *testing.T) []string {
	t.Helper()
	all, _, err := l.all()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range all {
		out = append(out, filepath.Base(k.path))
	}
	slices.Sort(out)
	return out
}

func TestLayersThatWereUsedLongestAgoGo(t *testing.T) {
	l := fewLayers(t)
	for n, key := range []string{"a", "b", "c"} {
		putLayer(t, l, key, time.Duration(3-n)*time.Hour)
	}
	r, disk, ok := l.find("a")
	if b, err := os.ReadFile(disk); !ok || r.Config.User != "a" || err != nil || b[0] != 'a' {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
	putLayer(t, l, "d", 0)
	if got := l.keys(t); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("kept are %v", got)
	}
	if _, _, ok := l.find("b"); ok {
		t.Error("b is still there")
	}
}

func TestLayerLargerThanTheLimitStaysForItsBuild(t *testing.T) {
	l := fewLayers(t)
	l.limit = 1
	for _, key := range []string{"a", "b"} {
		putLayer(t, l, key, 0)
		if got := l.keys(t); !slices.Equal(got, []string{key}) {
			t.Errorf("kept are %v", got)
		}
	}
}

func TestUnfinishedLayersAreRemoved(t *testing.T) {
	l := fewLayers(t)
	putLayer(t, l, "a", 0)
	for _, name := range []string{"b" + buildSuffix, "nothing-in-it"} {
		if err := os.Mkdir(filepath.Join(l.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(l.dir, "a", layerName), []byte(`{"key":"b"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := l.find("a"); ok {
		t.Error("a layer with another's record is believed")
	}
	if got := l.keys(t); !slices.Equal(got, []string{"a"}) {
		t.Errorf("kept are %v", got)
	}
	if _, _, ok := (&layers{dir: filepath.Join(l.dir, "none")}).find("a"); ok {
		t.Error("found in no directory")
	}
}
