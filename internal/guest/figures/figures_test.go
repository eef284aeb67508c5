package figures

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHere(t *testing.T) {
	u, err := Here.Measure()
	if err != nil {
		t.Fatal(err)
	}
	if u.MemoryTotalBytes < 1<<20 || u.MemoryUsedBytes == 0 || u.MemoryUsedBytes > u.MemoryTotalBytes {
		t.Errorf("memory %d of %d", u.MemoryUsedBytes, u.MemoryTotalBytes)
	}
	if u.DiskTotalBytes == 0 || u.DiskUsedBytes > u.DiskTotalBytes || u.Processes < 2 {
		t.Errorf("%v", u)
	}
}

func TestExact(t *testing.T) {
	proc := t.TempDir()
	for name, content := range map[string]string{
		"meminfo": "MemTotal:        2000 kB\nMemFree:  100 kB\nMemAvailable:    500 kB\nHugePages_Total:       0\n", "loadavg": "0.25 0.1 0.0 1/80 1234\n",
	} {
		if err := os.WriteFile(filepath.Join(proc, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"1", "42", "self", "sys"} {
		if err := os.Mkdir(filepath.Join(proc, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	u, err := Machine{Proc: proc, Disk: proc}.Measure()
	if err != nil {
		t.Fatal(err)
	}
	if u.MemoryTotalBytes != 2000<<10 || u.MemoryUsedBytes != 1500<<10 || u.Processes != 2 || u.Load != 0.25 {
		t.Errorf("%v", u)
	}
	if _, err := (Machine{Proc: t.TempDir(), Disk: "/"}).Measure(); err == nil {
		t.Error("measured nothing")
	}
}
