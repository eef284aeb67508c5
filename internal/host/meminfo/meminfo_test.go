package meminfo

import "testing"

func TestParse(t *testing.T) {
	got := parse("MemTotal:       24683636 kB\nMemFree: 1\nMemAvailable:   23000000 kB\nSwapTotal:             0 kB\nodd\n")
	if want := (Facts{Total: 24683636 << 10, Available: 23000000 << 10}); got != want {
		t.Errorf("parse = %+v, want %+v", got, want)
	}
}

func TestRead(t *testing.T) {
	got, err := Read()
	if err != nil || got.Total == 0 || got.Available == 0 || got.Available > got.Total {
		t.Errorf("Read = %+v, %v", got, err)
	}
}
