//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// TestDeletedUploadGivesItsRoomBack follows an upload from the last byte's arrival, which the project's use shows, to the node's disk without it.
func TestDeletedUploadGivesItsRoomBack(t *testing.T) {
	used := func() int64 {
		me, err := platform.client.Me(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return me.Project.Used.UploadsMb
	}
	staged := func() int {
		files, err := os.ReadDir(filepath.Join(platform.instance.RoleDir(instance.Host), "uploads"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	before, files := used(), staged()
	var content bytes.Buffer
	if _, err := io.CopyN(&content, rand.Reader, 3<<20); err != nil {
		t.Fatal(err)
	}
	id, err := platform.client.Upload(t.Context(), &content)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, callDeadline, "the upload is counted", func() bool { return used() == before+3 })
	var listed client.UploadInfo
	for u, err := range platform.client.ListUploads(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Id == id {
			listed = u
		}
	}
	if listed.Bytes != 3<<20 || listed.InUse || staged() != files+2 {
		t.Errorf("listed as %+v, with %d files", listed, staged()-files)
	}
	for range 2 {
		if err := platform.client.DeleteUpload(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if n := used(); n != before {
			t.Errorf("after the delete %d MiB are used, before the upload %d", n, before)
		}
	}
	eventually(t, callDeadline, "the node removes the upload", func() bool { return staged() == files })
}
